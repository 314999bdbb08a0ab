#!/bin/sh
# Starts a process of an lcrun job as torchrun would: it finds the others over TCP.
RANK=$LCI_LCRUN_RANK WORLD_SIZE=$LCI_LCRUN_SIZE LCT_PMI_BACKEND=tcp MASTER_ADDR=127.0.0.1
MASTER_PORT=$((20000 + $(printf %s "$LCI_LCRUN_SOCKET" | cksum | cut -d' ' -f1) % 10000))
export RANK WORLD_SIZE LCT_PMI_BACKEND MASTER_ADDR MASTER_PORT
exec "$@"
