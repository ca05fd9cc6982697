#!/bin/sh
# query.sh FILE: runs the query in FILE with penstock, and prints the result as CSV.
# PENSTOCK_DIR is the folder in which you run penstock, and PENSTOCK_CONFIG the configuration file, relative to this folder.
# PENSTOCK_TO is the destination, if the configuration has several.
set -eu
exec <"$1"
cd "${PENSTOCK_DIR:-.}"
exec penstock --quiet --config "${PENSTOCK_CONFIG:-pipelines.yaml}" query --exact --format csv ${PENSTOCK_TO:+--to "$PENSTOCK_TO"}
