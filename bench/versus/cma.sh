#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# process_vm_writev with 64 pieces a call, the same blocks.
. "$(dirname "$0")/common.sh"
"$dray" bench copy --rounds "$rounds" --json | rows "@cma$"
