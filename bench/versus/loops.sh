#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memcpy, cached vector, movsb and non-temporal loops in one process: cold scattered 16 KiB, 2 MiB, hot 16 KiB.
. "$(dirname "$0")/common.sh"
"$dray" bench copy --rounds "$rounds" --json | rows "^copy\.(scatter16k\.[12]lanes?|2m|put16k\.hot)$"
