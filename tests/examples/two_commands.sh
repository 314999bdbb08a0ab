#!/bin/sh
# file_to_gpu as two commands: a daemon, two clients one after the other, the second with a name that holds in its own
# directory alone, and one that names no file.
# usage: two_commands.sh PROGRAM FILE
folder=$(mktemp -d) || exit 1
"$1" --daemon "$folder/socket" --threads 2 >"$folder/daemon" &
daemon=$!
trap 'kill $daemon; rm -r "$folder"' EXIT
# Its line comes when it listens.
until grep -q "^daemon at" "$folder/daemon"; do kill -0 $daemon || exit 1; sleep 0.05; done
"$1" --client "$folder/socket" "$2" --host &&
  (cd "$(dirname "$2")" && "$1" --client "$folder/socket" "$(basename "$2")" --host) &&
  ! "$1" --client "$folder/socket" "$folder/none" --host
