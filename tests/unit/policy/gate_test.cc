/* SPDX-License-Identifier: Apache-2.0 */
/* The trust gate, row by row and in every pair of rows: of two checks that fail, the earlier one is what is said. */
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

extern "C" {
#include "policy/gate.h"
}

namespace {
dray_key FullKey()
{
  dray_key k{};
  strcpy(k.model, "model");
  strcpy(k.tokenizer, "tok");
  strcpy(k.serializer, "ser");
  strcpy(k.position, "rope");
  strcpy(k.policy, "pol");
  strcpy(k.admitter, "adm");
  return k;
}

/* Another tenant asks for a published, trusted cell with the right key. Starts out admitted. */
struct Case {
  dray_key mine = FullKey(), its = FullKey();
  policy_ask a{};
  Case()
  {
    a.op = DRAY_MAP;
    a.exists = true;
    a.tenant = 2;
    a.agent = 20;
    a.cell_tenant = 1;
    a.cell_agent = 10;
    a.cell_scope = DRAY_SCOPE_FLEET;
    a.cell_taint = DRAY_TRUSTED;
    a.mkey = &mine;
    a.cell_mkey = &its;
  }
  Case(const Case &) = delete;
  unsigned Check() { return gate_check(&a); }
  void BeSameTenant() { a.tenant = 1; }
  void BeOwner()
  {
    a.tenant = 1;
    a.agent = 10;
  }
};

struct Row {
  const char *name;
  unsigned reason;
  std::function<void(Case &)> breaks;
};

/* In the order of the contract. Each break leaves all other rows intact; rows that cannot fail together (an empty axis
   is not a differing axis of the same name) are still ordered, by the first that the contract names. */
const std::vector<Row> &Rows()
{
  static const std::vector<Row> rows = {
    {"another tenant's own cell", DRAY_ABSENT, [](Case &c) { c.a.cell_scope = DRAY_SCOPE_TENANT; }},
    {"poisoned", DRAY_POISONED, [](Case &c) { c.a.poisoned = true; }},
    {"quarantined", DRAY_QUARANTINED, [](Case &c) { c.a.quarantined = true; }},
    {"taint", DRAY_TAINT_DENIED, [](Case &c) { c.a.cell_taint = DRAY_TAINTED; }},
    {"no key of mine", DRAY_KEY_INCOMPLETE, [](Case &c) { c.a.mkey = nullptr; }},
    {"model", DRAY_MODEL_MISMATCH, [](Case &c) { c.its.model[0] = 'x'; }},
    {"tokenizer", DRAY_TOKENIZER_MISMATCH, [](Case &c) { c.its.tokenizer[0] = 'x'; }},
    {"serializer", DRAY_SERIALIZER_MISMATCH, [](Case &c) { c.its.serializer[0] = 'x'; }},
    {"position", DRAY_POSITION_MISMATCH, [](Case &c) { c.its.position[0] = 'x'; }},
    {"policy", DRAY_POLICY_MISMATCH, [](Case &c) { c.its.policy[0] = 'x'; }},
    {"admitter", DRAY_ADMITTER_MISMATCH, [](Case &c) { c.its.admitter[0] = 'x'; }},
  };
  return rows;
}

/* The same for an agent of the cell's own tenant, for whom scope is a row and absence is none. */
const std::vector<Row> &TenantRows()
{
  static std::vector<Row> rows = [] {
    std::vector<Row> r(Rows().begin() + 1, Rows().end());
    r.insert(r.begin() + 2, {"scope", DRAY_SCOPE_DENIED, [](Case &c) { c.a.cell_scope = DRAY_SCOPE_AGENT; }});
    return r;
  }();
  return rows;
}
} // namespace

TEST(Gate, AdmitsWhatPassesEveryRow)
{
  Case c;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_REASON_OK);
  c.BeSameTenant();
  EXPECT_EQ(c.Check(), (unsigned)DRAY_REASON_OK);
  c.a.cell_scope = DRAY_SCOPE_TENANT;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_REASON_OK);
  c.BeOwner();
  c.a.cell_scope = DRAY_SCOPE_AGENT;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_REASON_OK);
}

TEST(Gate, EachRowIsRefusedWithItsReason)
{
  for (const Row &r : Rows()) {
    Case c;
    r.breaks(c);
    EXPECT_EQ(c.Check(), r.reason) << r.name;
  }
  for (const Row &r : TenantRows()) {
    Case c;
    c.BeSameTenant();
    r.breaks(c);
    EXPECT_EQ(c.Check(), r.reason) << r.name;
  }
}

TEST(Gate, OfTwoRowsTheEarlierIsSaid)
{
  for (size_t i = 0; i < Rows().size(); i++)
    for (size_t j = i + 1; j < Rows().size(); j++) {
      Case c;
      Rows()[j].breaks(c);
      Rows()[i].breaks(c);
      EXPECT_EQ(c.Check(), Rows()[i].reason) << Rows()[i].name << " and " << Rows()[j].name;
    }
  for (size_t i = 0; i < TenantRows().size(); i++)
    for (size_t j = i + 1; j < TenantRows().size(); j++) {
      Case c;
      c.BeSameTenant();
      TenantRows()[j].breaks(c);
      TenantRows()[i].breaks(c);
      EXPECT_EQ(c.Check(), TenantRows()[i].reason) << TenantRows()[i].name << " and " << TenantRows()[j].name;
    }
}

TEST(Gate, MissingCellIsAbsent)
{
  Case c;
  c.a.exists = false;
  c.a.poisoned = true;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_ABSENT);
}

TEST(Gate, AnotherTenantsAgentCellIsAbsentToo)
{
  Case c;
  c.a.cell_scope = DRAY_SCOPE_AGENT;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_ABSENT);
  c.a.cell_scope = 0;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_ABSENT) << "a scope that is none opens nothing";
  c.BeSameTenant();
  EXPECT_EQ(c.Check(), (unsigned)DRAY_SCOPE_DENIED);
}

TEST(Gate, SameAgentIdOfAnotherTenantIsNoOwner)
{
  Case c;
  c.a.agent = c.a.cell_agent;
  c.a.cell_taint = DRAY_TAINTED;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_TAINT_DENIED);
}

TEST(Gate, UnknownTaintIsClosed)
{
  for (unsigned taint : {0, 2, 3, 9}) {
    Case c;
    c.a.cell_taint = (uint8_t)taint;
    EXPECT_EQ(c.Check(), (unsigned)DRAY_TAINT_DENIED);
  }
}

TEST(Gate, OwnerSkipsScopeAndTaintButNotTheRest)
{
  for (const Row &r : TenantRows()) {
    Case c;
    c.BeOwner();
    r.breaks(c);
    bool skipped = r.reason == DRAY_SCOPE_DENIED || r.reason == DRAY_TAINT_DENIED;
    EXPECT_EQ(c.Check(), skipped ? (unsigned)DRAY_REASON_OK : r.reason) << r.name;
  }
}

TEST(Gate, OwnerWithoutKeysOnBothSidesIsFine)
{
  Case c;
  c.BeOwner();
  c.a.mkey = c.a.cell_mkey = nullptr;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_REASON_OK);
  c.a.mkey = &c.mine;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_KEY_INCOMPLETE);
  c.a.mkey = nullptr;
  c.a.cell_mkey = &c.its;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_KEY_INCOMPLETE);
  c.a.mkey = &c.mine;
  c.mine.policy[0] = c.its.policy[0] = 0;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_REASON_OK) << "an owner's key may have an empty axis";
}

TEST(Gate, OthersNeedEveryAxisOnBothSides)
{
  auto axes = {offsetof(dray_key, model),    offsetof(dray_key, tokenizer), offsetof(dray_key, serializer),
               offsetof(dray_key, position), offsetof(dray_key, policy),    offsetof(dray_key, admitter)};
  for (size_t off : axes)
    for (int sides = 1; sides <= 3; sides++) {
      Case c;
      c.its.model[0] = 'x'; /* a difference is not said before incompleteness */
      if (sides & 1)
        ((char *)&c.mine)[off] = 0;
      if (sides & 2)
        ((char *)&c.its)[off] = 0;
      EXPECT_EQ(c.Check(), (unsigned)DRAY_KEY_INCOMPLETE) << off << " " << sides;
    }
  Case c;
  c.a.cell_mkey = nullptr;
  EXPECT_EQ(c.Check(), (unsigned)DRAY_KEY_INCOMPLETE);
}

TEST(Gate, AxisIsComparedToItsLastByte)
{
  Case c;
  memset(c.mine.model, 'm', sizeof c.mine.model);
  memset(c.its.model, 'm', sizeof c.its.model);
  EXPECT_EQ(c.Check(), (unsigned)DRAY_REASON_OK) << "no terminator, no overrun";
  c.its.model[63] = 'n';
  EXPECT_EQ(c.Check(), (unsigned)DRAY_MODEL_MISMATCH);
}

TEST(Gate, OnlyTheOwnerChangesACellAndItsTenantMayMoveIt)
{
  Case c;
  for (unsigned op : {DRAY_DROP, DRAY_PUBLISH, DRAY_MOVE}) {
    c.a.op = (uint8_t)op;
    c.a.tenant = 2;
    c.a.cell_scope = DRAY_SCOPE_FLEET;
    EXPECT_EQ(gate_change(&c.a), (unsigned)DRAY_SCOPE_DENIED);
    c.a.cell_scope = DRAY_SCOPE_TENANT;
    EXPECT_EQ(gate_change(&c.a), (unsigned)DRAY_ABSENT);
    c.a.tenant = 1;
    EXPECT_EQ(gate_change(&c.a), (unsigned)(op == DRAY_MOVE ? DRAY_REASON_OK : DRAY_SCOPE_DENIED));
    c.a.cell_scope = DRAY_SCOPE_AGENT;
    EXPECT_EQ(gate_change(&c.a), (unsigned)DRAY_SCOPE_DENIED);
    c.a.agent = 10;
    EXPECT_EQ(gate_change(&c.a), (unsigned)DRAY_REASON_OK);
    c.a.quarantined = true;
    EXPECT_EQ(gate_change(&c.a), (unsigned)(op == DRAY_MOVE ? DRAY_QUARANTINED : DRAY_REASON_OK)) << "bad bytes can be dropped";
    c.a.quarantined = false;
    c.a.agent = 20;
  }
}
