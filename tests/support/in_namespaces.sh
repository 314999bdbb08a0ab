#!/bin/sh
# Runs a command if this machine lets us make such namespaces, each process in its own; else it is
# skipped and says so.
#   in_namespaces.sh "<options of unshare>" command...
options=$1
shift
# Unquoted: several options.
if ! unshare $options true 2>/dev/null; then
  echo "skipped: unshare $options is not permitted here"
  exit 77
fi
exec "$@"
