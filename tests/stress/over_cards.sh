#!/bin/bash
# Runs a command in a virtual machine and looks at how many packets each of its verbs devices has sent meanwhile.
#   over_cards.sh LEAST command...
# Exit status: the command's; 1: some device has sent less than LEAST.
least=$1
shift
"$@" || exit
status=0
for counter in /sys/class/infiniband/rxe*/ports/1/hw_counters/sent_pkts; do
  device=$(echo "$counter" | cut -d / -f 5)
  sent=$(cat "$counter") || exit 1
  echo "over_cards.sh: $device has sent $sent packets"
  [ "$sent" -ge "$least" ] || status=1
done
[ "${sent:-none}" != none ] || exit 1
exit $status
