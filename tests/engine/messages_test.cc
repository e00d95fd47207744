// Send and Recv over hostnccl: the reference's bytes, in whatever groups the ranks put them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <future>
#include <latch>
#include <random>
#include <span>
#include <thread>

#include "own_settings.h"
#include "ranks.h"
#include "terse_client.h"
#include "trials.h"

namespace terse::test {
namespace {

// A message of a program that all ranks know.
struct Message {
  int from = 0, to = 0;
  Call call;
  size_t offset = 0;  // of the buffers, in bytes
};

// Each rank does its part in the order of the messages; where a group ends is said by `ends`. The
// schemes are known before: a sum of each on all ranks.
class Program {
 public:
  Program(int ranks, std::vector<Message> messages, std::function<bool(int rank, size_t i)> ends)
      : ranks_(ranks), messages_(std::move(messages)), ends_(std::move(ends)) {
    for (size_t i = 0; i < messages_.size(); ++i)
      sent_.push_back(
          gaussian(messages_[i].call.count, messages_[i].call.datatype, static_cast<unsigned>(i)));
  }

  void run(bool null_stream) {
    for (const Message& m : messages_)
      if (!m.call.scheme.off && std::ranges::find(schemes_, m.call.scheme) == schemes_.end())
        schemes_.push_back(m.call.scheme);
    if (!schemes_.empty()) ordinal_ = next_ordinal();
    run_ranks(ranks_, [&](int rank, ncclComm_t comm) {
      const HostStream stream(null_stream);
      for (const Scheme& scheme : schemes_) {
        const SchemeHandle handle(scheme);
        float one = 1;
        ASSERT_EQ(
            terseAllReduce(&one, &one, 1, ncclFloat32, ncclSum, handle.get(), comm, stream.get()),
            ncclSuccess);
        ASSERT_EQ(stream.synchronize(), ncclSuccess);
      }
      play(rank, comm, stream.get());
      terseCommRelease(comm);
    });
  }

 private:
  static bool is_packed(const Message& m) {
    codec::Dtype dtype;
    return m.from != m.to && !m.call.scheme.off && compressible(m.call.datatype, &dtype);
  }

  // The groups of one rank: indices of messages.
  std::vector<std::vector<size_t>> groups(int rank) const {
    std::vector<std::vector<size_t>> result(1);
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].from != rank && messages_[i].to != rank) continue;
      result.back().push_back(i);
      if (ends_(rank, i)) result.emplace_back();
    }
    if (result.back().empty()) result.pop_back();
    return result;
  }

  // What the message must be on arrival.
  Bytes wanted(size_t i) const {
    const Message& m = messages_[i];
    if (!is_packed(m)) return sent_[i];
    Call call = m.call;
    call.ordinal = ordinal_;
    call.sequence = schemes_.size();
    for (const std::vector<size_t>& group : groups(m.from)) {
      uint32_t index = 0;
      bool compressed = false;
      for (const size_t k : group) {
        if (k == i) return expected_message(call, sent_[i], m.from, index);
        const bool packed = is_packed(messages_[k]);
        if (!packed || messages_[k].call.count != 0)
          index += messages_[k].from == messages_[k].to ? 2 : 1;
        compressed = compressed || (packed && messages_[k].call.count != 0);
      }
      if (compressed) ++call.sequence;
    }
    return {};
  }

  void play(int rank, ncclComm_t comm, cudaStream_t stream) const {
    std::vector<std::unique_ptr<SchemeHandle>> schemes;
    std::vector<std::unique_ptr<Guarded>> in(messages_.size()), out(messages_.size());
    for (const Message& m : messages_)
      schemes.push_back(std::make_unique<SchemeHandle>(m.call.scheme));
    for (const std::vector<size_t>& group : groups(rank)) {
      const bool grouped = group.size() != 1 || messages_[group[0]].from == messages_[group[0]].to;
      if (grouped) terseGroupStart();
      for (const size_t i : group) {
        const Message& m = messages_[i];
        if (m.from == rank) {
          in[i] = std::make_unique<Guarded>(sent_[i].size(), m.offset);
          std::ranges::copy(sent_[i], in[i]->data());
          ASSERT_EQ(terseSend(in[i]->data(), m.call.count, m.call.datatype, m.to, schemes[i]->get(),
                              comm, stream),
                    ncclSuccess)
              << terseGetLastError();
        }
        if (m.to == rank) {
          out[i] = std::make_unique<Guarded>(sent_[i].size(), m.offset);
          ASSERT_EQ(terseRecv(out[i]->data(), m.call.count, m.call.datatype, m.from,
                              schemes[i]->get(), comm, stream),
                    ncclSuccess)
              << terseGetLastError();
        }
      }
      ASSERT_EQ(grouped ? terseGroupEnd() : ncclSuccess, ncclSuccess) << terseGetLastError();
    }
    ASSERT_EQ(hostncclStreamSynchronize(stream), ncclSuccess);
    for (size_t i = 0; i < messages_.size(); ++i) check(i, in[i].get(), out[i].get());
  }

  void check(size_t i, const Guarded* in, const Guarded* out) const {
    const Message& m = messages_[i];
    const std::string what =
        fmt::format("message {} from {} to {} of {} x{} type {}", i, m.from, m.to,
                    print_scheme(m.call.scheme), m.call.count, static_cast<int>(m.call.datatype));
    if (in != nullptr) {
      EXPECT_TRUE(in->intact()) << what;
      EXPECT_TRUE(std::ranges::equal(sent_[i], std::span(in->data(), in->size()))) << what;
    }
    if (out == nullptr) return;
    const Bytes want = wanted(i);
    ASSERT_EQ(want.size(), out->size()) << what;
    EXPECT_TRUE(out->intact()) << what;
    EXPECT_TRUE(std::ranges::equal(want, std::span(out->data(), out->size()))) << what;
  }

  const int ranks_;
  const std::vector<Message> messages_;
  const std::function<bool(int, size_t)> ends_;
  std::vector<Bytes> sent_;
  std::vector<Scheme> schemes_;
  uint64_t ordinal_ = 0;
};

Call call_of(const char* scheme, size_t count, ncclDataType_t type = ncclFloat32) {
  return {.scheme = parse_scheme(scheme), .datatype = type, .count = count};
}

constexpr auto kAtTheEnd = [](int, size_t) { return false; };
constexpr auto kAlone = [](int, size_t) { return true; };

TEST(Messages, InARing) {
  for (int ranks = 2; ranks <= 8; ++ranks)
    for (const bool null_stream : {true, false}) {
      std::vector<Message> ring;
      for (int r = 0; r < ranks; ++r)
        ring.push_back({.from = r,
                        .to = (r + 1) % ranks,
                        .call = call_of("int4:round=stochastic", 10'007, ncclBfloat16)});
      Program(ranks, ring, kAtTheEnd).run(null_stream);
    }
}

// Rank 0 groups what it sends and receives; the others pass on.
TEST(Messages, InARingThatOneRankClosesInAGroup) {
  std::vector<Message> ring;
  for (int r = 0; r < 4; ++r)
    ring.push_back({.from = r, .to = (r + 1) % 4, .call = call_of("int8", 2'000'003)});
  Program(4, ring, [](int rank, size_t) { return rank != 0; }).run(true);
}

TEST(Messages, LargeOnesAloneAndInAGroupAreTheSame) {
  const std::vector<Message> messages = {
      {.from = 0, .to = 1, .call = call_of("int8", 3'000'017), .offset = 1},
      {.from = 0, .to = 1, .call = call_of("minmax4:round=shift", 2'000'003, ncclFloat16)}};
  for (const bool null_stream : {true, false}) {
    Program(2, messages, kAlone).run(null_stream);
    Program(2, messages, kAtTheEnd).run(null_stream);
    Program(2, messages, [](int rank, size_t) { return rank == 0; }).run(null_stream);
    Program(2, messages, [](int rank, size_t) { return rank == 1; }).run(null_stream);
  }
}

Message random_message(int ranks, std::mt19937& random) {
  static const char* const kSchemes[] = {"int8",          "int4:round=stochastic",
                                         "int3:block=96", "minmax8:block=1024,round=shift",
                                         "minmax2",       "off"};
  static constexpr size_t kCounts[] = {0, 1, 31, 127, 128, 129, 4099, 65'537, 300'007};
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  Message m;
  m.from = static_cast<int>(random() % ranks);
  m.to = static_cast<int>(random() % ranks);
  m.call = call_of(kSchemes[random() % std::size(kSchemes)], kCounts[random() % std::size(kCounts)],
                   kTypes[random() % std::size(kTypes)]);
  m.offset = random() % 4;
  return m;
}

TEST(Messages, ArriveHoweverTheyAreGrouped) {
  std::mt19937 random(17);
  for (int trial = 0; trial < trials(60, 20) && !testing::Test::HasFailure(); ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    std::vector<Message> messages;
    for (size_t k = 1 + random() % 14; k > 0; --k)
      messages.push_back(random_message(ranks, random));
    std::vector<bool> ends;
    const unsigned most = 1 + random() % 5;
    for (size_t i = 0; i < ranks * messages.size(); ++i) ends.push_back(random() % most == 0);
    Program(ranks, messages, [&](int rank, size_t i) {
      return ends[rank * messages.size() + i];
    }).run(random() % 2);
  }
}

// Other ranks have no part in it, also where the scheme is new; nor have they in the messages of a
// group, all of whose peers are asked at once.
TEST(Messages, AreBetweenTheRanksThatTheyName) {
  run_ranks(4, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int8"));
    std::vector<float> data(1000, static_cast<float>(rank + 1)), got(1000, -1.0f);
    ncclResult_t result = ncclSuccess;
    for (int k = 0; k < 2 && rank < 2; ++k)
      result = rank == 0 ? terseSend(data.data(), 1000, ncclFloat32, 1, scheme.get(), comm, nullptr)
                         : terseRecv(got.data(), 1000, ncclFloat32, 0, scheme.get(), comm, nullptr);
    ASSERT_EQ(result, ncclSuccess) << terseGetLastError();
    EXPECT_EQ(got[999], rank == 1 ? 1.0f : -1.0f);
    if (rank > 2) return;
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    terseSend(data.data(), 1000, ncclFloat32, (rank + 1) % 3, scheme.get(), comm, nullptr);
    terseRecv(got.data(), 1000, ncclFloat32, (rank + 2) % 3, scheme.get(), comm, nullptr);
    ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(got[999], static_cast<float>((rank + 2) % 3 + 1));
    terseCommRelease(comm);
  });
}

TEST(Messages, OfSchemesThatDifferAreAnErrorOnBothRanks) {
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    if (rank == 0) return;
    const SchemeHandle scheme(parse_scheme(rank == 1 ? "int4" : "int8"));
    std::vector<float> data(1000, 1.0f);
    const ncclResult_t result =
        rank == 1 ? terseSend(data.data(), 1000, ncclFloat32, 2, scheme.get(), comm, nullptr)
                  : terseRecv(data.data(), 1000, ncclFloat32, 1, scheme.get(), comm, nullptr);
    EXPECT_EQ(result, ncclInvalidUsage);
    const std::string message = terseGetLastError();
    EXPECT_NE(message.find(rank == 1 ? "rank 2 is \"int8" : "rank 1 is \"int4"), std::string::npos)
        << message;
    EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    terseCommRelease(comm);
  });
}

// Of a message that two ranks refuse the third one knows nothing: its part of a sum that was in
// their group must not meet what they call next.
TEST(Messages, ThatAreRefusedInAGroupBreakOffItsOtherCalls) {
  constexpr size_t kCount = 1000;
  const SchemeHandle int8(parse_scheme("int8"));
  const std::pair<const char*, const char*> schemes[] = {{"int4", "int6"}, {"auto", "auto"}};
  for (const auto& named : schemes) {
    next_ordinal();
    std::barrier both(2);  // of the two; where one leaves, the other's calls end, too
    const auto body = [&](int rank, ncclComm_t comm) {
      std::vector<float> data(kCount, 1.0f), message(kCount, 5.0f);
      const auto sum = [&] {
        return terseAllReduce(data.data(), data.data(), kCount, ncclFloat32, ncclSum, int8.get(),
                              comm, nullptr);
      };
      EXPECT_EQ(sum(), ncclSuccess) << terseGetLastError();  // all agree on the scheme
      if (rank == 2) {
        EXPECT_NE(sum(), ncclSuccess);
        terseCommRelease(comm);
        return;
      }
      both.arrive_and_wait();
      const SchemeHandle scheme(parse_scheme(rank == 0 ? named.first : named.second));
      EXPECT_EQ(terseGroupStart(), ncclSuccess);
      EXPECT_EQ(sum(), ncclSuccess);
      if (rank == 0)
        terseSend(message.data(), kCount, ncclFloat32, 1, scheme.get(), comm, nullptr);
      else
        terseRecv(message.data(), kCount, ncclFloat32, 0, scheme.get(), comm, nullptr);
      EXPECT_NE(terseGroupEnd(), ncclSuccess);
      const std::vector<float> before = data;
      EXPECT_NE(sum(), ncclSuccess);
      const std::string error = terseGetLastError();
      EXPECT_NE(error.find("may be at different calls"), std::string::npos) << error;
      EXPECT_EQ(data, before);
      terseCommRelease(comm);
      both.arrive_and_wait();
      throw std::runtime_error("leaves");  // and so ends the third one's call
    };
    EXPECT_THROW(run_ranks(3, body), std::runtime_error) << named.first;
  }
}

// Each rank of two names first what it sends.
TEST(Messages, OfTwoNewSchemesInOppositeOrders) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle int8(parse_scheme("int8")), int4(parse_scheme("int4"));
    const SchemeHandle &mine = rank == 0 ? int8 : int4, &theirs = rank == 0 ? int4 : int8;
    const std::vector<float> data(1000, static_cast<float>(rank + 1));
    std::vector<float> got(1000);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    terseSend(data.data(), 1000, ncclFloat32, 1 - rank, mine.get(), comm, nullptr);
    terseRecv(got.data(), 1000, ncclFloat32, 1 - rank, theirs.get(), comm, nullptr);
    ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(got, std::vector<float>(1000, static_cast<float>(2 - rank)));
    terseCommRelease(comm);
  });
}

// Rank 1 goes on while rank 0 still waits for a third rank, which comes when rank 1 is done.
TEST(Messages, OfNewSchemesInOppositeOrdersWaitForNoThirdRank) {
  Settings own = settings();
  own.timeout_seconds = 1;
  std::latch second_is_done(1);
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    terse::communicator(comm, own);
    const HostStream stream(false);
    std::vector<float> sum(1000, 1.0f), data(1000, static_cast<float>(rank + 1)), got(1000);
    const auto exchange = [&](bool send, int peer, const char* text) {
      const SchemeHandle scheme(parse_scheme(text));
      if (send)
        terseSend(data.data(), 1000, ncclFloat32, peer, scheme.get(), comm, stream.get());
      else
        terseRecv(got.data(), 1000, ncclFloat32, peer, scheme.get(), comm, stream.get());
    };
    const SchemeHandle int8(parse_scheme("int8"));
    ASSERT_EQ(terseAllReduce(sum.data(), sum.data(), 1000, ncclFloat32, ncclSum, int8.get(), comm,
                             stream.get()),
              ncclSuccess);
    if (rank == 2) second_is_done.wait();
    terseGroupStart();
    if (rank < 2) exchange(true, 1 - rank, rank == 0 ? "int4" : "int6");
    if (rank < 2) exchange(false, 1 - rank, rank == 0 ? "int6" : "int4");
    if (rank == 0) exchange(true, 2, "bf16");
    if (rank == 2) exchange(false, 0, "bf16");
    EXPECT_EQ(terseGroupEnd(), ncclSuccess) << "rank " << rank << ": " << terseGetLastError();
    if (rank == 1) second_is_done.count_down();
    stream.synchronize();
    EXPECT_EQ(got, std::vector<float>(1000, rank == 0 ? 2.0f : 1.0f));
    terseCommRelease(comm);
  });
}

// With a sum of the same new scheme in the group, on all ranks.
TEST(Messages, FollowTheCollectivesOfTheirGroup) {
  next_ordinal();
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int8"));
    std::vector<float> sum(5000, 1.0f), data(5000, static_cast<float>(rank)), got(5000);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    const auto send = [&] {
      ASSERT_EQ(
          terseSend(data.data(), 5000, ncclFloat32, (rank + 1) % 3, scheme.get(), comm, nullptr),
          ncclSuccess);
    };
    if (rank == 1) send();
    ASSERT_EQ(terseAllReduce(sum.data(), sum.data(), 5000, ncclFloat32, ncclSum, scheme.get(), comm,
                             nullptr),
              ncclSuccess);
    if (rank != 1) send();
    ASSERT_EQ(terseRecv(got.data(), 5000, ncclFloat32, (rank + 2) % 3, scheme.get(), comm, nullptr),
              ncclSuccess);
    ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(sum, std::vector<float>(5000, 3.0f));
    EXPECT_EQ(got, std::vector<float>(5000, static_cast<float>((rank + 2) % 3)));
    terseCommRelease(comm);
  });
}

TEST(Messages, OfSeveralStreamsFollowAllOfThem) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int8"));
    const HostStream first(false), second(false);
    std::vector<float> out(300'000, 0.0f), in(300'000, -1.0f);
    for (int k = 1; k <= 5; ++k) {
      // Each stream has something to do before, and sees the result after.
      struct Fill {
        std::vector<float>* data;
        float value;
      } fill{&out, static_cast<float>(10 * k + rank)};
      ASSERT_EQ(hostncclLaunchHostFunc(
                    first.get(),
                    [](void* context) {
                      const Fill& f = *static_cast<Fill*>(context);
                      std::fill(f.data->begin(), f.data->end(), f.value);
                    },
                    &fill),
                ncclSuccess);
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      terseRecv(in.data(), in.size(), ncclFloat32, 1 - rank, scheme.get(), comm, second.get());
      terseSend(out.data(), out.size(), ncclFloat32, 1 - rank, scheme.get(), comm, first.get());
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
      ASSERT_EQ(first.synchronize(), ncclSuccess);
      ASSERT_EQ(second.synchronize(), ncclSuccess);
      EXPECT_EQ(in, std::vector<float>(in.size(), static_cast<float>(10 * k + 1 - rank)));
    }
    terseCommRelease(comm);
  });
}

// A message only is enqueued, also where it is larger than all before it: what it would wait for
// may need what the caller does next.
TEST(Messages, LargerOnesWaitForNothing) {
  constexpr size_t kSmall = 1'000, kLarge = 3'000'000;
  std::vector<ncclComm_t> first(2), second(2);
  ASSERT_EQ(ncclCommInitAll(first.data(), 2, nullptr), ncclSuccess);
  ASSERT_EQ(ncclCommInitAll(second.data(), 2, nullptr), ncclSuccess);
  next_ordinal();
  next_ordinal();
  std::promise<void> done;
  std::thread watch([&] {
    if (done.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready) return;
    ADD_FAILURE() << "the ranks wait for each other";
    for (const ncclComm_t comm : {first[0], first[1], second[0], second[1]}) terseCommAbort(comm);
    for (const ncclComm_t comm : {first[0], first[1], second[0], second[1]}) ncclCommAbort(comm);
  });
  const auto play = [&](int rank) {
    const SchemeHandle scheme(parse_scheme("int8"));
    const HostStream messages(false), apart(false);
    std::vector<float> data(kLarge, 1.0f), in(kLarge), sum(kSmall, 1.0f);
    const auto reduce = [&](ncclComm_t comm, const HostStream& stream) {
      return terseAllReduce(sum.data(), sum.data(), kSmall, ncclFloat32, ncclSum, scheme.get(),
                            comm, stream.get());
    };
    for (const ncclComm_t comm : {first[rank], second[rank]}) {
      ASSERT_EQ(reduce(comm, apart), ncclSuccess) << terseGetLastError();
      ASSERT_EQ(apart.synchronize(), ncclSuccess);
    }
    const auto send = [&](size_t count) {
      return terseSend(data.data(), count, ncclFloat32, 1 - rank, scheme.get(), first[rank],
                       messages.get());
    };
    const auto receive = [&](size_t count) {
      return terseRecv(in.data(), count, ncclFloat32, 1 - rank, scheme.get(), first[rank],
                       messages.get());
    };
    if (rank == 0) {
      EXPECT_EQ(receive(kSmall), ncclSuccess) << terseGetLastError();
      EXPECT_EQ(send(kLarge), ncclSuccess) << terseGetLastError();
      EXPECT_EQ(reduce(second[rank], apart), ncclSuccess) << terseGetLastError();
    } else {
      EXPECT_EQ(reduce(second[rank], messages), ncclSuccess) << terseGetLastError();
      EXPECT_EQ(send(kSmall), ncclSuccess) << terseGetLastError();
      EXPECT_EQ(receive(kLarge), ncclSuccess) << terseGetLastError();
    }
    EXPECT_EQ(messages.synchronize(), ncclSuccess);
    EXPECT_EQ(apart.synchronize(), ncclSuccess);
    EXPECT_EQ(sum, std::vector<float>(kSmall, 8.0f));
    const size_t count = rank == 0 ? kSmall : kLarge;
    EXPECT_EQ(std::vector<float>(in.begin(), in.begin() + static_cast<ptrdiff_t>(count)),
              std::vector<float>(count, 1.0f));
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  done.set_value();
  watch.join();
  for (const auto& comms : {first, second})
    for (const ncclComm_t comm : comms) {
      terseCommRelease(comm);
      ncclCommDestroy(comm);
    }
}

}  // namespace
}  // namespace terse::test
