#!/bin/sh
# Starts a process of an lcrun job by hand, so to speak: it finds the others in a directory.
LCT_PMI_BACKEND=file LCT_PMI_FILE_RANK=$LCI_LCRUN_RANK LCT_PMI_FILE_NRANKS=$LCI_LCRUN_SIZE
LCT_PMI_FILE_DIR=$PWD/unmet-files
export LCT_PMI_BACKEND LCT_PMI_FILE_RANK LCT_PMI_FILE_NRANKS LCT_PMI_FILE_DIR
exec "$@"
