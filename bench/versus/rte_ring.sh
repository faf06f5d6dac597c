#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same rings, bare: round trip and burst of 32.
. "$(dirname "$0")/common.sh"
"$dray" bench ring --rounds "$rounds" --json | rows "^ring"
