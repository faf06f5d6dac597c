/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/topology.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transports/cxl/media.h"

int topology_poison_lists(struct err *e)
{
  return media_offered(&media_kernel, e);
}

#ifdef HAVE_CXL
#include <cxl/libcxl.h>

static void add_regions(struct topology *t, struct cxl_port *port)
{
  struct cxl_decoder *decoder;
  struct cxl_region *region;
  cxl_decoder_foreach(port, decoder)
  {
    cxl_region_foreach(decoder, region)
    {
      if (t->regions == TOPOLOGY_MAX)
        return;
      struct topology_region *r = &t->region[t->regions++];
      snprintf(r->name, sizeof r->name, "%s", cxl_region_get_devname(region));
      snprintf(r->decoder, sizeof r->decoder, "%s", cxl_decoder_get_devname(decoder));
      r->start = cxl_region_get_resource(region);
      r->size = cxl_region_get_size(region);
      r->ways = cxl_region_get_interleave_ways(region);
    }
  }
}

int topology_read(struct topology *ret_topology)
{
  struct cxl_ctx *ctx;
  struct cxl_memdev *m;
  struct cxl_bus *bus;
  int rc = cxl_new(&ctx);
  if (rc)
    return rc < 0 ? rc : -rc;
  memset(ret_topology, 0, sizeof *ret_topology);
  cxl_memdev_foreach(ctx, m)
  {
    if (ret_topology->memdevs == TOPOLOGY_MAX)
      break;
    struct topology_memdev *d = &ret_topology->memdev[ret_topology->memdevs++];
    snprintf(d->name, sizeof d->name, "%s", cxl_memdev_get_devname(m));
    snprintf(d->host, sizeof d->host, "%s", cxl_memdev_get_host(m));
    d->persistent = cxl_memdev_get_pmem_size(m);
    d->temporary = cxl_memdev_get_ram_size(m);
    d->node = cxl_memdev_get_numa_node(m);
  }
  cxl_bus_foreach(ctx, bus)
  {
    add_regions(ret_topology, cxl_bus_get_port(bus));
  }
  cxl_unref(ctx);
  return 0;
}
#else
int topology_read(struct topology *ret_topology)
{
  (void)ret_topology;
  return -ENOTSUP;
}
#endif
