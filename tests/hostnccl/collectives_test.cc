// Every collective against the reference: types, operators, counts, ranks, in and out of place,
// aligned and not, with guard bytes around every buffer.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>

#include "reference.h"

namespace hostnccl_test {
namespace {

struct Case {
  ncclDataType_t type;
  ncclRedOp_t op;  // ncclNumOps: PreMulSum by 2
  size_t count;
  bool in_place;
  size_t shift;
};

std::string name(const Case& c) {
  return ::testing::PrintToString(static_cast<int>(c.type)) + " op " +
         ::testing::PrintToString(static_cast<int>(c.op)) + " count " +
         ::testing::PrintToString(c.count) + (c.in_place ? " in place" : "") + " shift " +
         ::testing::PrintToString(c.shift);
}

// The operators of one call, made and destroyed around it.
class Operators {
 public:
  Operators(const Clique& clique, const Case& c) : clique_(clique), op_(c.op) {
    if (op_ != ncclNumOps) return;
    char scalar[8];
    encode(c.type, 2, scalar);
    for (int rank = 0; rank < clique.size(); ++rank) {
      EXPECT_NCCL(ncclRedOpCreatePreMulSum(&made_.emplace_back(), scalar, c.type,
                                           ncclScalarHostImmediate, clique[rank]));
    }
  }
  ~Operators() {
    for (size_t rank = 0; rank < made_.size(); ++rank) {
      EXPECT_NCCL(ncclRedOpDestroy(made_[rank], clique_[static_cast<int>(rank)]));
    }
  }
  ncclRedOp_t operator[](int rank) const {
    return made_.empty() ? op_ : made_[static_cast<size_t>(rank)];
  }

 private:
  const Clique& clique_;
  ncclRedOp_t op_;
  std::vector<ncclRedOp_t> made_;
};

// The buffers of all ranks. In place, `send` lies in `recv` (or the other way round) at the
// element that `offset(rank)` names, and only the larger of the two exists.
struct Buffers {
  std::vector<std::unique_ptr<Buffer>> send, recv;
  Buffers(const Case& c, int ranks, size_t send_count, size_t recv_count) {
    for (int rank = 0; rank < ranks; ++rank) {
      send.push_back(std::make_unique<Buffer>(c.type, send_count, c.shift));
      recv.push_back(std::make_unique<Buffer>(c.type, recv_count, c.shift));
    }
  }
  void expect_guards() const {
    for (const auto& buffer : send) EXPECT_TRUE(buffer->guards_intact());
    for (const auto& buffer : recv) EXPECT_TRUE(buffer->guards_intact());
  }
};

void expect_values(const Case& c, const char* data, size_t count,
                   const std::function<double(size_t)>& expected) {
  for (size_t i = 0; i < count; ++i) {
    const double want = expected(i), actual = decode(c.type, data + i * size_of(c.type));
    if (want == actual) continue;
    ASSERT_EQ(rounded(c.type, want), actual) << "element " << i;
  }
}

void expect_averages(const Case& c, int ranks, const char* data, size_t count, size_t first) {
  std::vector<std::vector<double>> possible;
  for (size_t i = 0; i < kInputPeriod; ++i) possible.push_back(averages(c.type, ranks, i));
  for (size_t i = 0; i < count; ++i) {
    const std::vector<double>& values = possible[(first + i) % kInputPeriod];
    const double actual = decode(c.type, data + i * size_of(c.type));
    ASSERT_TRUE(std::ranges::find(values, actual) != values.end())
        << "element " << i << " is " << actual << ", not one of "
        << ::testing::PrintToString(values);
  }
}

// The reductions of the ranks' inputs, from `first` on.
void expect_reduced(const Case& c, int ranks, const char* data, size_t count, size_t first = 0) {
  if (c.op == ncclAvg && is_float(c.type)) return expect_averages(c, ranks, data, count, first);
  expect_values(c, data, count, [&](size_t i) { return reduced(c.type, c.op, ranks, first + i); });
}

void expect_same_bytes(const std::vector<std::unique_ptr<Buffer>>& buffers) {
  for (const auto& buffer : buffers) EXPECT_TRUE(*buffer == *buffers[0]);
}

// On all ranks.
void expect_everywhere(const Case& c, const std::vector<std::unique_ptr<Buffer>>& buffers,
                       size_t count, const std::function<double(size_t)>& expected) {
  expect_values(c, buffers[0]->data(), count, expected);
  expect_same_bytes(buffers);
}

void test_all_reduce(const Clique& clique, const Case& c) {
  const int n = clique.size();
  Buffers b(c, n, c.count, c.count);
  for (int r = 0; r < n; ++r) {
    (c.in_place ? b.recv : b.send)[r]->fill([&](size_t i) { return input(c.type, c.op, r, i); });
  }
  const Operators ops(clique, c);
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce((c.in_place ? b.recv : b.send)[r]->data(), b.recv[r]->data(), c.count,
                         c.type, ops[r], comm, nullptr);
  }));
  expect_reduced(c, n, b.recv[0]->data(), c.count);
  expect_same_bytes(b.recv);
  for (int r = 0; r < n && !c.in_place; ++r) {
    for (size_t i = 0; i < c.count; ++i) ASSERT_EQ((*b.send[r])[i], input(c.type, c.op, r, i));
  }
  b.expect_guards();
}

void test_reduce(const Clique& clique, const Case& c, int root) {
  const int n = clique.size();
  Buffers b(c, n, c.count, c.count);
  for (int r = 0; r < n; ++r) {
    (c.in_place ? b.recv : b.send)[r]->fill([&](size_t i) { return input(c.type, c.op, r, i); });
  }
  const Operators ops(clique, c);
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    char* recv = r == root || c.in_place ? b.recv[r]->data() : nullptr;
    return ncclReduce((c.in_place ? b.recv : b.send)[r]->data(), recv, c.count, c.type, ops[r],
                      root, comm, nullptr);
  }));
  expect_reduced(c, n, b.recv[root]->data(), c.count);
  b.expect_guards();
}

void test_reduce_scatter(const Clique& clique, const Case& c) {
  const int n = clique.size();
  Buffers b(c, n, c.count * n, c.in_place ? 0 : c.count);
  for (int r = 0; r < n; ++r) {
    b.send[r]->fill([&](size_t i) { return input(c.type, c.op, r, i); });
  }
  const auto result = [&](int r) {
    return c.in_place ? b.send[r]->at(r * c.count) : b.recv[r]->data();
  };
  const Operators ops(clique, c);
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclReduceScatter(b.send[r]->data(), result(r), c.count, c.type, ops[r], comm, nullptr);
  }));
  for (int r = 0; r < n; ++r) expect_reduced(c, n, result(r), c.count, r * c.count);
  b.expect_guards();
}

void test_all_gather(const Clique& clique, const Case& c) {
  const int n = clique.size();
  Buffers b(c, n, c.in_place ? 0 : c.count, c.count * n);
  const auto own = [&](int r) {
    return c.in_place ? b.recv[r]->at(r * c.count) : b.send[r]->data();
  };
  for (int r = 0; r < n; ++r) {
    for (size_t i = 0; i < c.count; ++i) {
      encode(c.type, input(c.type, ncclSum, r, i), own(r) + i * size_of(c.type));
    }
  }
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllGather(own(r), b.recv[r]->data(), c.count, c.type, comm, nullptr);
  }));
  expect_everywhere(c, b.recv, c.count * n, [&](size_t i) {
    return input(c.type, ncclSum, static_cast<int>(i / c.count), i % c.count);
  });
  b.expect_guards();
}

void test_broadcast(const Clique& clique, const Case& c, int root) {
  const int n = clique.size();
  Buffers b(c, n, c.count, c.count);
  (c.in_place ? b.recv : b.send)[root]->fill(
      [&](size_t i) { return input(c.type, ncclSum, root, i); });
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    if (c.in_place) return ncclBcast(b.recv[r]->data(), c.count, c.type, root, comm, nullptr);
    return ncclBroadcast(r == root ? b.send[r]->data() : nullptr, b.recv[r]->data(), c.count,
                         c.type, root, comm, nullptr);
  }));
  expect_everywhere(c, b.recv, c.count, [&](size_t i) { return input(c.type, ncclSum, root, i); });
  b.expect_guards();
}

void test_all_to_all(const Clique& clique, const Case& c) {
  const int n = clique.size();
  Buffers b(c, n, c.count * n, c.count * n);
  for (int r = 0; r < n; ++r) {
    b.send[r]->fill([&](size_t i) { return input(c.type, ncclSum, r, i); });
  }
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAlltoAll(b.send[r]->data(), b.recv[r]->data(), c.count, c.type, comm, nullptr);
  }));
  for (int r = 0; r < n; ++r) {
    expect_values(c, b.recv[r]->data(), c.count * n, [&](size_t i) {
      return input(c.type, ncclSum, static_cast<int>(i / c.count), r * c.count + i % c.count);
    });
  }
  b.expect_guards();
}

void test_gather_and_scatter(const Clique& clique, const Case& c, int root) {
  const int n = clique.size();
  Buffers b(c, n, c.count, c.count * n);
  for (int r = 0; r < n; ++r) {
    b.send[r]->fill([&](size_t i) { return input(c.type, ncclSum, r, i); });
  }
  char* own = b.recv[root]->at(root * c.count);
  if (c.in_place) std::copy(b.send[root]->data(), b.send[root]->at(c.count), own);
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    const bool is_root = r == root;
    return ncclGather(is_root && c.in_place ? own : b.send[r]->data(),
                      is_root ? b.recv[r]->data() : nullptr, c.count, c.type, root, comm, nullptr);
  }));
  expect_values(c, b.recv[root]->data(), c.count * n, [&](size_t i) {
    return input(c.type, ncclSum, static_cast<int>(i / c.count), i % c.count);
  });

  for (int r = 0; r < n; ++r) b.send[r]->fill([](size_t) { return 0; });
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    const bool is_root = r == root;
    return ncclScatter(is_root ? b.recv[r]->data() : nullptr,
                       is_root && c.in_place ? own : b.send[r]->data(), c.count, c.type, root, comm,
                       nullptr);
  }));
  for (int r = 0; r < n; ++r) {
    if (r == root && c.in_place) continue;
    expect_values(c, b.send[r]->data(), c.count,
                  [&](size_t i) { return input(c.type, ncclSum, r, i); });
  }
  b.expect_guards();
}

class Collectives : public ::testing::TestWithParam<int> {};

TEST_P(Collectives, AllTypesAndOperators) {
  const Clique clique(GetParam());
  for (const ncclDataType_t type : kAllTypes) {
    for (int op = ncclSum; op <= ncclNumOps; ++op) {
      const Case c{type, static_cast<ncclRedOp_t>(op), 97, op % 2 == 0, type % 2u};
      SCOPED_TRACE(name(c));
      test_all_reduce(clique, c);
      test_reduce_scatter(clique, c);
      test_reduce(clique, c, op % clique.size());
    }
  }
}

TEST_P(Collectives, RandomCounts) {
  const Clique clique(GetParam());
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const size_t counts[] = {0, 1, 2, 3, 13, 127, 1009, 4099, 10007, 30011};
  for (const size_t count : counts) {
    const Case c{kAllTypes[random() % std::size(kAllTypes)], static_cast<ncclRedOp_t>(random() % 6),
                 count, random() % 2 == 0, random() % 4};
    const int root = static_cast<int>(random() % static_cast<unsigned>(clique.size()));
    SCOPED_TRACE(name(c));
    test_all_reduce(clique, c);
    test_reduce(clique, c, root);
    test_reduce_scatter(clique, c);
    test_all_gather(clique, c);
    test_broadcast(clique, c, root);
    test_all_to_all(clique, c);
    test_gather_and_scatter(clique, c, root);
  }
}

// Beyond the direct algorithms: rings and chains.
TEST_P(Collectives, LargeCounts) {
  const Clique clique(GetParam());
  const Case cases[] = {
      {ncclFloat32, ncclSum, 140009, false, 0},      {ncclFloat32, ncclSum, 140009, true, 1},
      {ncclBfloat16, ncclAvg, 270001, false, 1},     {ncclInt32, ncclAvg, 140009, true, 0},
      {ncclFloat8e4m3, ncclNumOps, 530003, true, 3}, {ncclUint64, ncclMax, 70001, false, 2}};
  int root = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(name(c));
    root = (root + 1) % clique.size();
    test_all_reduce(clique, c);
    test_reduce(clique, c, root);
    test_reduce_scatter(clique, c);
    test_all_gather(clique, c);
    test_broadcast(clique, c, root);
  }
}

// Floats whose sum depends on the order: whatever it is, all ranks hold the same bytes.
TEST_P(Collectives, SameBytesOnAllRanks) {
  const Clique clique(GetParam());
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (const ncclDataType_t type : {ncclFloat32, ncclFloat16}) {
    for (const size_t count : {size_t{5}, size_t{4099}, size_t{70001}, size_t{400009}}) {
      const Case c{type, ncclSum, count, false, 0};
      Buffers b(c, clique.size(), count, count);
      for (const auto& buffer : b.send) {
        for (size_t i = 0; i < count; ++i) {
          const auto value = static_cast<float>(normal(random));
          if (type == ncclFloat32)
            buffer->set(i, value);
          else
            reinterpret_cast<uint16_t*>(buffer->data())[i] = random() & 0xffff;
        }
      }
      ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
        return ncclAllReduce(b.send[r]->data(), b.recv[r]->data(), count, type, ncclSum, comm,
                             nullptr);
      }));
      for (int r = 1; r < clique.size(); ++r) EXPECT_TRUE(*b.recv[r] == *b.recv[0]) << count;
    }
  }
}

// As NCCL has it: it is checked, and nothing more. A rank may leave it out.
TEST(Empty, ACollectiveIsNoCall) {
  const Clique clique(2);
  int value[2] = {1, 2};
  const auto empty = [&](ncclRedOp_t op) {
    return ncclAllReduce(&value[0], &value[0], 0, ncclInt32, op, clique[0], nullptr);
  };
  EXPECT_NCCL(empty(ncclSum));
  EXPECT_EQ(ncclInvalidArgument, empty(ncclNumOps));
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_NCCL(empty(ncclSum));
  EXPECT_NCCL(ncclGroupEnd());
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&value[r], &value[r], 1, ncclInt32, ncclSum, comm, nullptr);
  }));
  EXPECT_EQ(value[0], 3);
  EXPECT_EQ(value[1], 3);
}

// A wait that overlooks work sleeps until the next beat: half a second and more, each time.
TEST(StreamWait, OverlooksNoWork) {
  const Clique clique(4);
  const Case c{ncclFloat32, ncclSum, 140009, false, 0};
  Buffers b(c, 4, 4 * c.count, c.count);
  int slept = 0;
  for (int round = 0; round < 50; ++round) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
      return ncclReduceScatter(b.send[r]->data(), b.recv[r]->data(), c.count, c.type, c.op, comm,
                               nullptr);
    }));
    slept += std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(500);
  }
  EXPECT_LT(slept, 6) << "rounds of 50: on a busy machine a few may take so long";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace hostnccl_test
