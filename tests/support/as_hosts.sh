#!/bin/sh
# Runs one rank of a job as if every N ranks were a host of their own: they share memory, the others
# are reached over the network. Started by lcrun, which says the rank.
#   lcrun -n 4 as_hosts.sh 2 command...
# LCI_TEST_FEWER_ON_FIRST: so many ranks less on the first host.
each=$1
shift
LCI_HOST_ID=host$(((${LCI_LCRUN_RANK:-$RANK} + ${LCI_TEST_FEWER_ON_FIRST:-0}) / each))
export LCI_HOST_ID
exec "$@"
