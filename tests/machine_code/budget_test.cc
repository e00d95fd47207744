// How many instructions a kernel takes for an element, by its machine code: a warp's, times 32,
// over the elements of whole tiles. budgets.json has them, and docs/GPU.md a table of the most
// used.
//
// A kernel may take kRoom more or less. After a deliberate change
//
//     TERSE_BLESS=1 ctest --test-dir build/host -R machine_code.budgets
//
// writes both anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cpu_kernels.h"
#include "document_table.h"
#include "kernel_listings.h"
#include "machine_kernels.h"
#include "simt/global_memory.h"
#include "support.h"

namespace terse::kernels {
namespace {

using codec::Bytes;
using codec::Dtype;
using codec::Spec;
// What one operation takes, by its name and then by the type of raw elements.
using Budgets = std::map<std::string, std::map<std::string, double>>;

constexpr double kRoom = 0.03;
const std::string kFile = TERSE_BUDGETS;

bool blesses() { return std::getenv("TERSE_BLESS") != nullptr; }

// What is summed, and whether the sum is packed.
struct Operation {
  std::string name;
  Spec spec;
  size_t raw_sources, packed_sources;
  bool packed_target;
};

// Instructions of one thread block for a message of so many elements.
uint64_t issued_for(const Operation& operation, Dtype raw, size_t count) {
  const Spec& spec = operation.spec;
  codec::Random random(3);
  const Bytes raw_body = oracle::to_memory(raw, numbers(codec::Kin::kGaussian, count, random));
  const Bytes packed_body =
      oracle::encode(spec, {.seed = 1}, numbers(codec::Kin::kGaussian, count, random));
  // Not at equal distances, so that each is a source of its own.
  std::deque<codec::Guarded> inputs;
  std::vector<codec::Source> sources;
  for (size_t i = 0; i < operation.raw_sources + operation.packed_sources; ++i) {
    const bool is_raw = i < operation.raw_sources;
    inputs.emplace_back(is_raw ? raw_body : packed_body);
    const codec::Format format = is_raw ? codec::Format(raw) : codec::Format(spec);
    sources.push_back({inputs.back().data(), format, false});
  }
  const codec::Format to = operation.packed_target ? codec::Format(spec) : codec::Format(raw);
  codec::Guarded target(operation.packed_target ? codec::body_size(spec, count)
                                                : count * codec::dtype_size(raw));
  const codec::Combine work{.sources = sources,
                            .target = {target.data(), to, codec::draw_of({.seed = 1})},
                            .factor = 1,
                            .premultiply = {1, nullptr},
                            .total = count,
                            .count = count};
  const uint64_t before = issued;
  make_batches({&work, 1}, nullptr, [&](const KernelId& id, const Batch& batch) {
    cpu_kernel(id)(batch, {.threads = kThreads});
  });
  return issued - before;
}

double instructions(const Operation& operation, Dtype raw) {
  constexpr size_t kLess = 16384, kMore = 3 * kLess;
  const auto more = issued_for(operation, raw, kMore) - issued_for(operation, raw, kLess);
  return std::round(10.0 * 32 * static_cast<double>(more) / (kMore - kLess)) / 10;
}

std::string format_name(const Spec& spec) {
  const codec::Descriptor& d = codec::descriptor(spec.codec);
  std::string name(d.name);
  if (!codec::has_one_width(d)) name += std::to_string(spec.bits);
  if (spec.hadamard != 0) name += " hadamard";
  return name;
}

// Every kernel: those to packed by rounding, those to raw once. Sums of eight for the most used.
std::vector<Operation> operations() {
  std::vector<Operation> all;
  std::set<std::string> names;
  const auto add = [&](const std::string& what, const Spec& spec, size_t raw, size_t packed,
                       bool to_packed) {
    const std::string name = format_name(spec) + " " + what;
    if (names.insert(name).second) all.push_back({name, spec, raw, packed, to_packed});
  };
  const char* const roundings[] = {"nearest", "stochastic", "shift"};
  for (const Spec& spec : codec::every_spec(128)) {
    const std::string rounding = roundings[static_cast<int>(spec.rounding)];
    add("encode " + rounding, spec, 1, 0, true);
    Spec larger = spec;
    larger.block = std::min<uint16_t>(1024, codec::descriptor(spec.codec).max_block);
    add("decode", larger, 0, 1, false);
    if (spec.codec != codec::kSymmetric || spec.hadamard != 0) continue;
    if (spec.bits != 4 && spec.bits != 8) continue;
    add("encode the sum of 8 " + rounding, spec, 1, 7, true);
    add("sum of 8", spec, 0, 8, false);
  }
  return all;
}

Budgets measured() {
  Budgets budgets;
  for (const Operation& operation : operations())
    for (const Dtype raw : codec::kAllDtypes)
      if (machine::has_kernel(kernel_name(
              {operation.spec, raw, operation.packed_target, operation.spec.hadamard != 0})))
        budgets[operation.name][codec::name_of(raw)] = instructions(operation, raw);
  return budgets;
}

nlohmann::json blessed() {
  std::ifstream file(kFile);
  return nlohmann::json::parse(file);
}

void bless(const Budgets& budgets) {
  std::ofstream file(kFile);
  file << fmt::format("{{\n\"nvcc\": \"{}\",\n\"instructions an element\": ", TERSE_NVCC);
  const char* separator = "{\n";
  for (const auto& [name, by_type] : budgets) {
    file << separator
         << fmt::format("  {}: {}", nlohmann::json(name).dump(), nlohmann::json(by_type).dump());
    separator = ",\n";
  }
  file << "\n}}\n";
}

Budgets blessed_budgets() { return blessed().at("instructions an element").get<Budgets>(); }

TEST(Budgets, AreWhatTheKernelsTake) {
  const Budgets now = measured();
  if (blesses()) bless(now);
  if (blessed().at("nvcc") != TERSE_NVCC)
    GTEST_SKIP() << "the budgets are of nvcc " << blessed().at("nvcc") << ", and this is of "
                 << TERSE_NVCC;
  const Budgets then = blessed_budgets();
  for (const auto& [name, by_type] : now) {
    ASSERT_TRUE(then.contains(name)) << name;
    for (const auto& [type, taken] : by_type) {
      ASSERT_TRUE(then.at(name).contains(type)) << name << ", " << type;
      EXPECT_NEAR(taken, then.at(name).at(type), kRoom * then.at(name).at(type))
          << name << ", " << type;
    }
  }
  EXPECT_EQ(now.size(), then.size());
}

std::string table() {
  std::string text = "| | fp32 | bf16 |\n|---|---|---|\n";
  const Budgets budgets = blessed_budgets();
  for (const char* const name : {"int8 encode nearest",
                                 "int4 encode nearest",
                                 "int8 encode stochastic",
                                 "int4 encode stochastic",
                                 "int8 decode",
                                 "int4 decode",
                                 "int8 encode the sum of 8 nearest",
                                 "int4 encode the sum of 8 nearest",
                                 "int8 encode the sum of 8 stochastic",
                                 "int4 encode the sum of 8 stochastic",
                                 "int8 sum of 8",
                                 "int4 sum of 8",
                                 "minmax8 encode nearest",
                                 "minmax4 encode nearest",
                                 "minmax8 decode",
                                 "minmax4 decode",
                                 "learned8 encode nearest",
                                 "learned4 encode nearest",
                                 "learned8 decode",
                                 "learned4 decode",
                                 "fp8e4m3 encode nearest",
                                 "fp8e4m3 decode",
                                 "mxfp8 encode nearest",
                                 "mxfp8 decode",
                                 "mxfp4 encode nearest",
                                 "mxfp4 decode"}) {
    const auto& by_type = budgets.at(name);
    text += fmt::format("| {} | {:.1f} | {:.1f} |\n", name, by_type.at("fp32"), by_type.at("bf16"));
  }
  return text;
}

TEST(Budgets, AreTheTableOfTheDocument) {
  test::expect_table("GPU.md", "tests/machine_code/budget_test.cc", table());
}

}  // namespace
}  // namespace terse::kernels
