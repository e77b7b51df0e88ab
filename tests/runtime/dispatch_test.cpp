#include "monotile/dispatch.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "runtime/choose.hpp"
#include "runtime/kernels.hpp"

namespace monotile {
namespace {

struct FakeArgs {
  static constexpr const char* op_name = "fake";
  int size = 0;
};
using Fake = Implementation<FakeArgs>;

template <int Cost>
double fixed_cost(const FakeArgs&, const DeviceInfo&) {
  return Cost;
}
const char* always(const FakeArgs&, const DeviceInfo&) { return nullptr; }
const char* only_small(const FakeArgs& args, const DeviceInfo&) {
  return args.size < 10 ? nullptr : "size must be under 10";
}
void no_plan(const FakeArgs& args, const DeviceInfo&, Plan<FakeArgs>& plan) { plan.config[0] = args.size; }
void no_run(const Plan<FakeArgs>&, Stream&, const FakeArgs&, void*) {}

constexpr Fake reference{"plain", Tier::reference, always, fixed_cost<1000>, no_plan, no_run};
constexpr Fake portable_a{"tile_a", Tier::portable, always, fixed_cost<5>, no_plan, no_run};
constexpr Fake portable_b{"tile_b", Tier::portable, always, fixed_cost<5>, no_plan, no_run};
constexpr Fake tuned{"fast", Tier::tuned, only_small, fixed_cost<2>, no_plan, no_run};
constexpr const Fake* list[] = {&tuned, &portable_a, &portable_b, &reference};

Plan<FakeArgs> choose(int size, const char* tier) {
  return detail::choose<FakeArgs>("fake", list, {}, FakeArgs{size}, parse_tier(tier));
}

TEST(Dispatch, LowestCostThenListOrder) {
  EXPECT_EQ(choose(1, "").implementation, &tuned);
  EXPECT_EQ(choose(10, "").implementation, &portable_a);
  EXPECT_EQ(choose(10, "").config[0], 10);
  EXPECT_EQ(choose(10, "").device, &device_info({}));
}

TEST(Dispatch, ForcedTiersAreStrict) {
  EXPECT_EQ(choose(1, "portable").implementation, &portable_a);
  EXPECT_EQ(choose(1, "reference").implementation, &reference);
  EXPECT_EQ(choose(1, "vendor+").implementation, &tuned);
  EXPECT_EQ(choose(10, "tuned+").implementation, &portable_a);
  for (const auto& [size, tier, fragment] :
       {std::tuple{10, "tuned", "size must be under 10"}, std::tuple{1, "vendor", "vendor"}}) {
    try {
      (void)choose(size, tier);
      FAIL() << tier;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      for (const char* wanted : {"fake", "cpu", fragment})
        EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
    }
  }
}

TEST(Dispatch, ExplainsEachImplementation) {
  const std::vector<Choice> rows = detail::explain<FakeArgs>(list, device_info({}), FakeArgs{10}, {});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].why, "size must be under 10");
  EXPECT_FALSE(rows[0].supported);
  EXPECT_TRUE(rows[1].chosen);
  EXPECT_FALSE(rows[2].chosen);
  EXPECT_EQ(rows[3].cost, 1000);
}

TEST(Tiers, Parse) {
  EXPECT_FALSE(parse_tier("").tier.has_value());
  EXPECT_FALSE(parse_tier("auto").tier.has_value());
  for (const Tier tier : {Tier::reference, Tier::portable, Tier::tuned, Tier::vendor}) {
    EXPECT_EQ(parse_tier(to_string(tier)).tier, tier);
    EXPECT_FALSE(parse_tier(to_string(tier)).or_lower);
    const TierPolicy plus = parse_tier(std::string(to_string(tier)) + "+");
    EXPECT_EQ(plus.tier, tier);
    EXPECT_TRUE(plus.or_lower);
  }
  for (const char* text : {"Portable", "+", "portable++", "auto+", "portable ", "fast"}) {
    try {
      (void)parse_tier(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("\"" + std::string(text) + "\""), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("reference, portable"), std::string::npos);
    }
  }
}

TEST(Tiers, Allows) {
  EXPECT_TRUE(TierPolicy{}.allows(Tier::vendor));
  EXPECT_TRUE(parse_tier("portable").allows(Tier::portable));
  EXPECT_FALSE(parse_tier("portable").allows(Tier::reference));
  EXPECT_FALSE(parse_tier("portable+").allows(Tier::tuned));
  EXPECT_TRUE(parse_tier("portable+").allows(Tier::reference));
}

TEST(Context, WorkspaceGrowsAndIsKept) {
  Context context(Device{});
  void* const first = context.workspace(100);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(context.workspace(50), first);
  auto* const large = static_cast<unsigned char*>(context.workspace(1 << 20));
  large[(1 << 20) - 1] = 1;
  EXPECT_EQ(context.workspace(100), large);
  EXPECT_THROW((void)context.workspace(size_t{1} << 60), Error);
  EXPECT_EQ(context.workspace(100), large);  // a refused request changes nothing
  *static_cast<unsigned char*>(first) = 2;   // a captured graph may still write to the one that was outgrown
}

TEST(Context, CountsUses) {
  Context context(Device{});
  context.note_use("op", "tile", Tier::portable);
  context.note_use("op", std::string("tile").c_str(), Tier::portable);
  context.note_use("op", "plain", Tier::reference);
  ASSERT_EQ(context.uses().size(), 2u);
  EXPECT_EQ(context.uses()[0].calls, 2);
  Stream stream(Device{});
  Context borrowed(stream);
  EXPECT_EQ(&borrowed.stream(), &stream);
}

void some_kernel() {}

TEST(Registry, FindsExactlyWhatWasBuilt) {
  const std::vector<KernelEntry>& all = built_kernels();
  ASSERT_FALSE(all.empty());
  std::set<std::tuple<std::string_view, Target, uint32_t>> keys;
  for (const KernelEntry& entry : all) {
    EXPECT_EQ(find_kernel(entry.name, entry.target, entry.variant), entry.function);
    EXPECT_TRUE(keys.insert({entry.name, entry.target, entry.variant}).second) << entry.name;
  }
  const KernelEntry& one = all.front();
  EXPECT_EQ(find_kernel(std::string(one.name) + "x", one.target, one.variant), nullptr);
  EXPECT_EQ(find_kernel(one.name, one.target, 0xfffffff0u), nullptr);
  EXPECT_EQ(find_kernel("", one.target, one.variant), nullptr);
}

TEST(Registry, IsClosedAfterTheBuiltInKernels) {
  (void)built_kernels();
  try {
    register_kernel("test.late", Target::cpu_plain, 3, some_kernel);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_NE(std::string(error.what()).find("test.late for cpu_plain, variant 3"), std::string::npos) << error.what();
  }
  EXPECT_EQ(find_kernel("test.late", Target::cpu_plain, 3), nullptr);
}

}  // namespace
}  // namespace monotile
