#!/bin/sh
# All scenes, one after the other, as one test: where starting each costs most.
#   scenes.sh lcrun command...
expect=$(dirname "$0")/../support/expect.sh
lcrun=$1
shift
failed=0
# With the status of the job: 137 is that of the rank that was killed.
for scene in own:137 all:137 left:0 left_unmet:0 left_root:0 end:137 met:137; do
  name=${scene%:*}
  notice=own
  [ "$name" != all ] || notice=all
  echo "scene $name"
  LCI_ATTR_FAILURE_NOTICE=$notice "$expect" -s "${scene#*:}" "rank 0 ended well" "rank 1 ended well" -- \
    "$lcrun" --keep-going -n 3 "$@" "$name" || failed=1
done
exit $failed
