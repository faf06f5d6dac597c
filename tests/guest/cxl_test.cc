/* SPDX-License-Identifier: Apache-2.0 */
/* CXL Type-3 memory, seen by libcxl, and shared without coherence. */
#include <sys/wait.h>

#include "tests/guest/guest.h"

extern "C" {
#include "transports/cxl/share.h"
}

using guest::kCell;
using guest::kMiB;
using guest::mover;
using guest::Raw;
using kit::Engine;
using kit::say;

TEST(GuestCxl, TiersShowsTheDeviceAndTheTopology)
{
  NEEDS("GUEST_DAX");
  auto m = mover({.capacity = "16MiB"});
  ASSERT_TRUE(m->up()) << m->log();
  auto r = run::dray({"tiers", "--verbose"}, m.get());
  ASSERT_EQ(r.code, 0) << r.err;
  printf("%s", r.out.c_str());
  std::string dir = "/sys/bus/dax/devices/" + guest::dax() + "/";
  uint64_t size = strtoull(kit::read_file(dir + "size").c_str(), nullptr, 0);
  EXPECT_NE(r.out.find("cxl: at /dev/" + guest::dax()), std::string::npos);
  EXPECT_NE(r.out.find("cxl: device " + guest::dax() + ": " + std::to_string(size) + " bytes, align 2097152, mode devdax, node " +
                       std::to_string(atoi(kit::read_file(dir + "target_node").c_str()))),
            std::string::npos);
  EXPECT_NE(r.out.find("cxl: range 0x"), std::string::npos);
  EXPECT_NE(r.out.find("real"), std::string::npos) << "no stand-in";
  if (guest::env("GUEST_VARIANT") == "cxl") {
    EXPECT_NE(r.out.find("CXL: mem0 at 0000:"), std::string::npos);
    EXPECT_NE(r.out.find("CXL: region0 of decoder0.0: 268435456 bytes"), std::string::npos);
  } else {
    EXPECT_NE(r.out.find("CXL: no"), std::string::npos);
  }
}

TEST(GuestCxl, DoctorHasARowForEachDevice)
{
  NEEDS("GUEST_DAX");
  auto r = run::dray({"doctor"});
  EXPECT_NE(r.out.find(guest::dax() + ": "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("mode devdax"), std::string::npos) << r.out;
  if (guest::env("GUEST_VARIANT") == "cxl") {
    EXPECT_NE(r.out.find("1 devices, 1 regions"), std::string::npos) << r.out;
  }
  std::string rows;
  size_t at = r.out.find("dax device");
  printf("%s", r.out.substr(at == std::string::npos ? 0 : r.out.rfind('\n', at) + 1).c_str());
}

/* What the device itself remembers. QEMU's list (8.1 and later) makes no load fail: it is a list and nothing else. */
TEST(GuestCxl, TheDevicesPoisonListIsReadAtStartOrItsAbsenceIsSaid)
{
  if (guest::env("GUEST_VARIANT") != "cxl")
    GTEST_SKIP() << "no CXL memory in this variant";
  const std::string mem = "/sys/bus/cxl/devices/mem0/", debug = "/sys/kernel/debug/cxl/mem0/";
  bool trigger = access((mem + "trigger_poison_list").c_str(), F_OK) == 0;
  bool event = access("/sys/kernel/tracing/events/cxl/cxl_poison", F_OK) == 0;
  printf("MATRIX cxl poison list: kernel %s, trigger_poison_list %s, event cxl_poison %s\n",
         kit::read_file("/proc/sys/kernel/osrelease").c_str(), trigger ? "there" : "absent", event ? "there" : "absent");
  auto doctor = run::dray({"doctor"});
  size_t at = doctor.out.find("CXL poison");
  ASSERT_NE(at, std::string::npos) << doctor.out;
  printf("doctor: %s\n", doctor.out.substr(at, doctor.out.find('\n', at) - at).c_str());
  if (!trigger || !event) {
    EXPECT_NE(doctor.out.find("no list can be read"), std::string::npos) << doctor.out;
    auto m = mover({.capacity = "16MiB"});
    ASSERT_TRUE(m->up()) << m->log();
    EXPECT_NE(m->log().find("the CXL poison list is not read: "), std::string::npos) << m->log();
    EXPECT_NE(run::dray({"tiers"}, m.get()).out.find("the CXL poison list is not read"), std::string::npos);
    return;
  }
  EXPECT_NE(doctor.out.find("an empty one proves nothing"), std::string::npos) << doctor.out;
  std::string resource = kit::read_file("/sys/bus/dax/devices/" + guest::dax() + "/resource");
  std::string region = kit::read_file("/sys/bus/cxl/devices/region0/resource");
  uint64_t into = strtoull(resource.c_str(), nullptr, 0) - strtoull(region.c_str(), nullptr, 0);
  int64_t before;
  {
    auto m = mover({.capacity = "16MiB"});
    ASSERT_TRUE(m->up()) << m->log();
    EXPECT_EQ(m->log().find("left out"), std::string::npos) << m->log();
    run::Json j(run::dray({"tiers", "--json"}, m.get()).out);
    before = json_integer_value(json_object_get(json_array_get(json_object_get(j.o, "tiers"), 1), "capacity"));
  }
  char line[160];
  snprintf(line, sizeof line, "echo 0x%llx > %sinject_poison", (unsigned long long)(into + 4 * kMiB + 0x1000), debug.c_str());
  std::string out;
  ASSERT_EQ(guest::shell(line, &out), 0) << out << line;
  auto m = mover({.capacity = "16MiB"});
  ASSERT_TRUE(m->up()) << m->log();
  EXPECT_NE(m->log().find("1 pieces of known bad memory are left out"), std::string::npos) << m->log();
  run::Json j(run::dray({"tiers", "--json"}, m.get()).out);
  int64_t after = json_integer_value(json_object_get(json_array_get(json_object_get(j.o, "tiers"), 1), "capacity"));
  EXPECT_EQ(before - after, (int64_t)(2 * kMiB)) << "the unit that it lies in";
  EXPECT_NE(access(("/sys/kernel/tracing/instances/dray-" + std::to_string(m->keeper())).c_str(), F_OK), 0)
      << "nothing is left behind in tracefs";
}

/* Another process with a mapping of its own stands in for another host: there is one cache here, so what it cannot show
   is a stale line. */
TEST(GuestCxl, BenchMeasuresTheDeviceUnlessAMoverHasIt)
{
  NEEDS("GUEST_DAX");
  std::string path = "/dev/" + guest::dax();
  const std::vector<std::string> args = {"bench", "cxl", "--device", path, "--quick", "--size", "2MiB", "--block-size",
                                         "64KiB", "--threads", "2", "--rw", "read", "--rounds", "1", "--json"};
  auto r = run::dray(args);
  ASSERT_EQ(r.code, 0) << r.err;
  run::Json j(r.out);
  size_t i, good = 0;
  json_t *x;
  json_array_foreach(json_object_get(j.o, "results"), i, x)
  {
    std::string name = json_string_value(json_object_get(x, "name"));
    double median = json_number_value(json_object_get(x, "median"));
    if (name == "cxl.online")
      good += median == 2 << 20 && std::string(json_string_value(json_object_get(x, "note"))) == "device-dax";
    if (name == "cxl.read.2t" || name == "cxl.latency")
      good += median > 0 && json_is_true(json_object_get(x, "verified"));
  }
  EXPECT_EQ(good, 3u) << r.out;
  {
    auto m = guest::mover({.capacity = "16MiB"});
    ASSERT_TRUE(m->up()) << m->log();
    r = run::dray(args);
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("a mover has it"), std::string::npos) << r.err;
  }
  EXPECT_EQ(run::dray({"bench", "cxl", "--device", path, "--size", "1MiB"}).code, 1) << "no multiple of its align";
}

TEST(GuestCxl, AnotherHostsProcessReadsACellByItsLine)
{
  NEEDS("GUEST_DAX");
  auto m = mover({.keep = "fresh", .capacity = "32MiB", .more = ", coherence: software"});
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, guest::as("red"));
  e.fill(0, kCell, 7);
  ASSERT_EQ(e.put("shared", 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  EXPECT_EQ(e.map("shared").reason, DRAY_NOT_ATTENDABLE);
  auto look = [&]() {
    pid_t pid = fork();
    if (pid == 0) {
      Raw raw(guest::dax(), 32 * kMiB);
      struct share s;
      uint64_t line, len;
      uint32_t generation;
      std::vector<char> to(kCell);
      kit::Key key("shared");
      if (!raw.ok() || share_open(&s, raw.at(), 32 * kMiB))
        _exit(2);
      if (share_find(&s, key.b, &line))
        _exit(3);
      if (share_read(&s, line, key.b, to.data(), kCell, &len, &generation))
        _exit(4);
      _exit(len == kCell && kit::pattern_holds(to.data(), kCell, 7) ? 0 : 5);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
  };
  EXPECT_EQ(look(), 0);
  ASSERT_EQ(e.drop("shared").status, DRAY_OK);
  EXPECT_EQ(look(), 3) << "no line names what is gone";
}
