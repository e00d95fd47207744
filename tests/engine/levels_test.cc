// Levels of learned codecs that a program gives, asks for, and saves.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <filesystem>

#include "codec/codebook.h"
#include "own_settings.h"
#include "ranks.h"
#include "reference.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr int kRanks = 3;

std::vector<float> table_of(const std::vector<float>& levels, int bits) {
  std::vector<float> table = levels;
  table.resize(codec::codebook_floats(bits));
  for (size_t i = 0; i < levels.size(); ++i) codec::complete_codebook(table.data(), bits, i);
  return table;
}

// Some for learned2 and learned3, that are not equally far from each other.
const std::vector<float> kFour = {0, 0.125f, 0.5f, 1};
const std::vector<float> kEight = {0, 0.0625f, 0.125f, 0.25f, 0.5f, 0.75f, 0.875f, 1};

std::vector<Bytes> inputs(const Call& call, unsigned seed) {
  std::vector<Bytes> all;
  for (int r = 0; r < kRanks; ++r)
    all.push_back(gaussian(send_count(call, kRanks), call.datatype, seed + r));
  return all;
}

Bytes result_of(const Call& call, const Bytes& sent, ncclComm_t comm) {
  const HostStream stream(false);
  const SchemeHandle scheme(call.scheme);
  Bytes in = sent, out(recv_count(call, kRanks) * datatype_size(call.datatype));
  EXPECT_EQ(call_terse(call, in.data(), out.data(), scheme.get(), comm, stream.get()), ncclSuccess)
      << terseGetLastError();
  stream.synchronize();
  return out;
}

std::vector<Levels> levels_of(ncclComm_t comm) {
  size_t bytes = 0;
  EXPECT_EQ(terseCommGetLevels(comm, nullptr, 0, &bytes), ncclSuccess) << terseGetLastError();
  std::string text(bytes, '?');
  EXPECT_EQ(terseCommGetLevels(comm, text.data(), bytes, &bytes), ncclSuccess);
  EXPECT_EQ(text.back(), '\0');
  EXPECT_EQ(bytes, text.size());
  text.pop_back();
  return parse_levels(text, "levels");
}

Call call_of(Collective collective, const char* scheme) {
  return {.collective = collective,
          .scheme = parse_scheme(scheme),
          .count = 5003,
          .ordinal = next_ordinal()};
}

std::string text_of(const std::vector<Levels>& levels) { return print_levels(levels); }

class GivenLevels : public testing::TestWithParam<Collective> {};

// Before the first call, and between others; of two kinds of calls each by its own.
TEST_P(GivenLevels, AreWhatCallsGoBy) {
  const char* const kSchemes[] = {"learned2:learn=never", "learned3:learn=never,round=stochastic"};
  for (const char* scheme : kSchemes) {
    Call call = call_of(GetParam(), scheme);
    const std::vector<Bytes> sent = inputs(call, 40);
    const int bits = call.scheme.spec.bits;
    const std::vector<float> first = bits == 2 ? kFour : kEight;
    std::vector<float> second = first;
    second[1] = 0.03125f;
    const std::vector<float> tables[] = {table_of(first, bits), table_of(second, bits)};
    std::vector<std::vector<Bytes>> wanted;
    for (unsigned k = 0; k < 2; ++k) {
      call.sequence = k;
      call.codebook = tables[k].data();
      wanted.push_back(expected(call, sent));
    }
    EXPECT_NE(wanted[0], wanted[1]);
    run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
      for (unsigned k = 0; k < 2; ++k) {
        const std::vector<float>& at = k == 0 ? first : second;
        const std::vector<Levels> given = {{.at = kFour}, {.at = kEight}, {.at = kFour}};
        std::vector<Levels> these = given;
        these[bits - 2].at = at;
        ASSERT_EQ(terseCommSetLevels(comm, text_of(these).c_str()), ncclSuccess)
            << terseGetLastError();
        EXPECT_EQ(result_of(call, sent[rank], comm), wanted[k][rank]) << scheme << " " << k;
        const std::vector<Levels> now = levels_of(comm);
        ASSERT_EQ(now.size(), 1u);
        EXPECT_EQ(now[0], (Levels{call.collective, call.count, codec::Dtype::kFloat32,
                                  call.scheme.spec, 2, 0, at}));
      }
      ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
    });
  }
}
INSTANTIATE_TEST_SUITE_P(All, GivenLevels,
                         testing::Values(Collective::kAllReduce, Collective::kAllGather,
                                         Collective::kReduceScatter));

TEST(LevelsOfAnotherWidth, AreNotTakenAndThatIsSaid) {
  Call call = call_of(Collective::kAllReduce, "learned3:learn=never");
  const std::vector<Bytes> sent = inputs(call, 50), wanted = expected(call, sent);
  testing::internal::CaptureStderr();
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const std::vector<Levels> given = {{.at = kFour},
                                       {.collective = Collective::kAllGather, .at = kEight}};
    ASSERT_EQ(terseCommSetLevels(comm, text_of(given).c_str()), ncclSuccess) << terseGetLastError();
    for (unsigned k = 0; k < 2; ++k) EXPECT_EQ(result_of(call, sent[rank], comm), wanted[rank]);
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  });
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string warning =
      "levels of 2 bits were given for AllReduces of 5003 elements, whose codes have 3";
  size_t times = 0;
  for (size_t at = 0; (at = said.find(warning, at)) != said.npos; ++at) ++times;
  EXPECT_EQ(times, size_t{kRanks}) << said;
}

// What one communicator has learned another one goes on with: the next fit is at the same call.
TEST(LearnedLevels, AreThoseOfTheFitAndGoOnElsewhere) {
  Call call = call_of(Collective::kAllGather, "learned2:learn=1+3");
  const uint64_t second = next_ordinal();
  std::string saved;
  std::vector<float> learned;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    EXPECT_EQ(levels_of(comm), std::vector<Levels>()) << "no call yet";
    for (unsigned k = 0; k < 2; ++k) result_of(call, inputs(call, 60)[rank], comm);
    const std::vector<Levels> now = levels_of(comm);
    ASSERT_EQ(now.size(), 1u);
    EXPECT_EQ(now[0].calls, 2u);
    EXPECT_EQ(now[0].fits, 1u);
    EXPECT_NE(now[0].at[1], codec::uniform_level(1, 2));
    if (rank == 0) saved = text_of(now), learned = now[0].at;
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  });
  const std::vector<float> table = table_of(learned, 2);
  call.ordinal = second;
  call.codebook = table.data();
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    // The third call learns of other elements. It comes first here.
    ASSERT_EQ(terseCommSetLevels(comm, saved.c_str()), ncclSuccess) << terseGetLastError();
    result_of(call, inputs(call, 80)[rank], comm);
    std::vector<Levels> now = levels_of(comm);
    EXPECT_EQ(now[0].calls, 3u);
    EXPECT_EQ(now[0].fits, 2u);
    EXPECT_NE(now[0].at, learned);
    // And the fourth none.
    ASSERT_EQ(terseCommSetLevels(comm, text_of({{.calls = 3, .fits = 7, .at = learned}}).c_str()),
              ncclSuccess);
    const std::vector<Bytes> sent = inputs(call, 90);
    Call fourth = call;
    fourth.sequence = 1;
    EXPECT_EQ(result_of(call, sent[rank], comm), expected(fourth, sent)[rank]);
    now = levels_of(comm);
    EXPECT_EQ(now[0].calls, 4u);
    EXPECT_EQ(now[0].fits, 7u);
    EXPECT_EQ(now[0].at, learned);
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Which the communicators' states keep.
Settings saving_to(const std::string& path) {
  Settings saving = settings();
  saving.levels_path = path;
  return saving;
}

std::string path_of_levels(const char* name) {
  return testing::TempDir() + fmt::format("terse-{}-{}.toml", name, getpid());
}

// What is in the file, which goes.
std::vector<Levels> taken_from(const std::string& path) {
  const std::vector<Levels> saved = read_levels(path);
  std::filesystem::remove(path);
  return saved;
}

// One rank's call.
void call_under(const Settings& settings, const Call& call, const Bytes& sent, ncclComm_t comm) {
  const HostStream stream(false);
  Bytes out(sent.size());
  const Request request = request_of(call, sent.data(), out.data(), stream.get());
  terse::submit(comm, request, call.scheme, settings);
  stream.synchronize();
}

// Ranks that are threads of one process: its file is that of the communicator's rank 0, whichever
// of them comes first.
TEST(LearnedLevels, AreSavedWhicheverThreadComesFirst) {
  const std::string path = path_of_levels("learned");
  static const Settings saving = saving_to(path);
  const Call call = call_of(Collective::kAllReduce, "learned2:learn=1");
  const std::vector<Bytes> sent = inputs(call, 60);
  std::barrier made(kRanks);
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    if (rank == kRanks - 1) terse::communicator(comm, saving);
    made.arrive_and_wait();
    call_under(saving, call, sent[rank], comm);
    release_communicator(comm, false);
  });
  const std::vector<Levels> saved = taken_from(path);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].calls, 1u);
  EXPECT_EQ(saved[0].fits, 1u);
  EXPECT_EQ(saved[0].count, call.count);
}

// Nothing is fitted on the other communicators, whether they are given levels or not: what was
// learned of such calls stays.
TEST(LearnedLevels, AreNotReplacedByWhatWasNotFitted) {
  const std::string path = path_of_levels("given");
  static const Settings learning = saving_to(path);
  static Settings others[] = {learning, learning, learning};
  others[1].levels = {{.calls = 9, .fits = 0, .at = kFour}};
  others[2].levels = {{.calls = 9, .fits = 4, .at = kFour}};
  Call first = call_of(Collective::kAllReduce, "learned2:learn=1"), later = first;
  first.count = later.count = 6007;
  later.scheme = parse_scheme("learned2:learn=never");
  const std::vector<Bytes> sent = inputs(first, 60);
  const auto run = [&](const Settings& settings, const Call& call, uint64_t fits) {
    run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
      call_under(settings, call, sent[rank], comm);
      for (const Levels& each : levels_of(comm)) EXPECT_EQ(each.fits, fits);
      release_communicator(comm, false);
    });
  };
  run(learning, first, 1);
  for (const Settings& other : others)
    run(other, later, other.levels.empty() ? 0 : other.levels[0].fits);
  std::vector<Levels> saved = taken_from(path);
  std::erase_if(saved, [&](const Levels& l) { return l.count != first.count; });  // other tests'
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].calls, 1u);
  EXPECT_EQ(saved[0].fits, 1u);
  EXPECT_NE(saved[0].at, kFour);
}

// Its ranks may have been at different calls.
TEST(LearnedLevels, AreNotSavedOfACommunicatorThatHasFailed) {
  const std::string path = path_of_levels("failed");
  static const Settings saving = saving_to(path);
  const Call call = call_of(Collective::kAllReduce, "learned2:learn=1");
  const std::vector<Bytes> sent = inputs(call, 60);
  std::barrier called(kRanks);
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    call_under(saving, call, sent[rank], comm);
    called.arrive_and_wait();
    find_communicator(comm)->health().poison(Error(ncclSystemError, "a call has failed"));
    release_communicator(comm, true);
  });
  EXPECT_EQ(taken_from(path), std::vector<Levels>());
}

// Where the ranks give others, or one cannot give any, nothing changes on any of them.
TEST(LevelsOfAll, AreAnErrorOnAllRanksOrOnNone) {
  const Call call = call_of(Collective::kAllReduce, "learned2:learn=never");
  const std::string good = text_of({{.at = kFour}}), other = text_of({{.at = kEight}});
  const std::string bad = "[[levels]]\nat = [0, 2, 3, 4]\n";
  struct Case {
    std::string of_rank_1;
    ncclResult_t own, others;
    const char *mine, *theirs;
  };
  const Case cases[] = {
      {other, ncclInvalidUsage, ncclInvalidUsage, "rank 0 gives other levels than this rank",
       "rank 1 gives other levels than this rank"},
      {bad, ncclInvalidArgument, ncclInvalidUsage,
       "levels:2:10: a level is 2, but must be from 0 to 1",
       "rank 1 gives other levels than this rank"}};
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const std::vector<Bytes> sent = inputs(call, 40);
    const Bytes before = result_of(call, sent[rank], comm);
    const std::vector<Levels> had = levels_of(comm);
    for (const Case& c : cases) {
      const bool own = rank == 1;
      EXPECT_EQ(terseCommSetLevels(comm, (own ? c.of_rank_1 : good).c_str()),
                own ? c.own : c.others);
      const std::string message = terseGetLastError();
      EXPECT_NE(message.find(own ? c.mine : c.theirs), message.npos) << message;
      EXPECT_NE(message.find(fmt::format("rank {} of {}", rank, kRanks)), message.npos) << message;
      EXPECT_EQ(result_of(call, sent[rank], comm), before);
      std::vector<Levels> now = levels_of(comm);
      now[0].calls = had[0].calls;
      EXPECT_EQ(now, had);
    }
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

TEST(LevelsOfAll, BadArgumentsAreRefused) {
  EXPECT_EQ(terseCommSetLevels(nullptr, ""), ncclInvalidArgument);
  size_t bytes = 7;
  EXPECT_EQ(terseCommGetLevels(nullptr, nullptr, 0, &bytes), ncclInvalidArgument);
  run_ranks(2, [&](int, ncclComm_t comm) {
    EXPECT_EQ(terseCommSetLevels(comm, nullptr), ncclInvalidArgument);
    EXPECT_NE(std::string(terseGetLastError()).find("the levels are null"), std::string::npos);
    terseGroupStart();
    EXPECT_EQ(terseCommSetLevels(comm, ""), ncclInvalidUsage);
    EXPECT_NE(std::string(terseGetLastError()).find("within a group"), std::string::npos);
    terseGroupEnd();
    EXPECT_EQ(terseCommGetLevels(comm, nullptr, 0, nullptr), ncclInvalidArgument);
    char none[1] = {'?'};
    size_t needed = 0;
    EXPECT_EQ(terseCommGetLevels(comm, none, 1, nullptr), ncclInvalidArgument);
    EXPECT_EQ(none[0], '?');
    EXPECT_EQ(terseCommGetLevels(comm, none, 0, &needed), ncclInvalidArgument);
    EXPECT_EQ(none[0], '?');
    EXPECT_EQ(terseCommGetLevels(comm, none, 1, &needed), ncclSuccess);
    EXPECT_EQ(none[0], '\0');
    EXPECT_EQ(needed, 1u);
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
