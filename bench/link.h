/* SPDX-License-Identifier: Apache-2.0 */
/* What the PCIe links of the machine's CXL memory can carry, as sysfs has them. */
#ifndef BENCH_LINK_H
#define BENCH_LINK_H

#include <stdint.h>

/* Sums current_link_speed times current_link_width over the CXL memory devices under root ("/sys/bus/cxl/devices"),
   less the line code. GB/s in one direction; 0: there is none, or the kernel does not say. ret_n: how many were
   counted. */
double link_cxl_gbps(const char *root, uint32_t *ret_n);
/* GB/s of one link: speed in GT/s, lanes. 0 when either is not possible. */
double link_gbps(double gts, double lanes);
#endif
