// Profiles in TOML: what they say, what is refused, and where.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "error_of.h"
#include "policy/profile_file.h"
#include "policy/scheme.h"
#include "trials.h"

namespace terse {
namespace {

using model::Profile;

Profile parse(std::string_view text) { return parse_profile(text, "p.toml"); }

TEST(Profile, SaysWhatItsFileSays) {
  const Profile p = parse(R"(# Of 2026.
name = "4 hosts"
source = "by hand"
gpu = true
node_ranks = 8
nics = 4
launch = 5e-6
message = 2e-6
overlap = 0.5

[within]
latency = 3e-6
bandwidth = 230e9

[between]
bandwidth = 12_500_000_000
latency = 14e-6

[pods]
latency = 1e-3
bandwidth = 2e9

[fused]
launch = 7e-6
flag = 1e-6
bandwidth = 40e9
overlap = 0.25

[coding]
encode = 2e9
decode = 3e9

[codec.int4]
encode = 4e9
decode = 5e9

[[measured]]
collective = "allreduce"
dtype = "fp32"
ranks = 4
nodes = 2
scheme = "native"
points = [[65536, 0.0011], [1048576, 0.013]]

[[measured]]
collective = "allgather"
dtype = "bfloat16"
ranks = 4
nodes = 4
scheme = "int8:round=stochastic"
fused = true
points = [[1, 1]]
)");
  const Profile wanted{
      .name = "4 hosts",
      .source = "by hand",
      .within = model::Link{3e-6, 230e9},
      .between = model::Link{14e-6, 12.5e9},
      .pods = model::Link{1e-3, 2e9},
      .gpu = true,
      .node_ranks = 8,
      .nics = 4,
      .message = 2e-6,
      .launch = 5e-6,
      .overlap = 0.5,
      .fused = model::FusedCalls{.launch = 7e-6, .flag = 1e-6, .bandwidth = 40e9, .overlap = 0.25},
      .coding = {2e9, 3e9},
      .codecs = {{"int4", {4e9, 5e9}}},
      .measured = {{plan::Collective::kAllReduce,
                    codec::Dtype::kFloat32,
                    4,
                    2,
                    "native",
                    {{65536, 0.0011}, {1048576, 0.013}}},
                   {plan::Collective::kAllGather,
                    codec::Dtype::kBfloat16,
                    4,
                    4,
                    "int8:round=stochastic",
                    {{1, 1}},
                    true}}};
  EXPECT_EQ(p, wanted);
  EXPECT_EQ(parse(print_profile(p)), wanted) << print_profile(p);
}

constexpr char kMin[] = "[within]\nlatency = 0\nbandwidth = 1\n[coding]\nencode = 1\ndecode = 1\n";

TEST(Profile, WhatIsLeftOutIsPlain) {
  const Profile p = parse(kMin);
  EXPECT_EQ(p, (Profile{.within = model::Link{0, 1}, .coding = {1, 1}}));
  EXPECT_EQ(p.overlap, 1);
  EXPECT_EQ(p.node_ranks, 1);
  EXPECT_FALSE(p.gpu);
}

TEST(Profile, ThoseThatComeAlongSayWhereTheyAreFrom) {
  EXPECT_FALSE(known_profiles().empty());
  for (const KnownProfile& known : known_profiles()) {
    const Profile p = read_profile(std::string(known.name));
    EXPECT_EQ(p.name, known.name);
    EXPECT_FALSE(p.source.empty()) << p.name;
    EXPECT_TRUE(p.gpu) << p.name;
    EXPECT_TRUE(p.within && p.within->bandwidth >= 1e9) << p.name;
    EXPECT_EQ(parse(print_profile(p)), p) << p.name;
    // Between GPUs of one node by PCIe alone; no GPU has run a fused call.
    EXPECT_EQ(p.fused.has_value(), p.within->bandwidth < 40e9) << p.name;
    EXPECT_TRUE(!p.fused || p.fused->estimate) << p.name;
  }
}

Profile random_profile(std::mt19937& random) {
  const auto number = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  const auto magnitude = [&] { return std::pow(10, number(0, 15)); };
  const auto yes = [&] { return number(0, 1) < 0.5; };
  const std::vector<std::string> codecs = codec_names();
  Profile p{.name = R"(a "name" \ with signs)",
            .gpu = yes(),
            .node_ranks = static_cast<int>(number(1, 1000)),
            .nics = static_cast<int>(number(1, 16)),
            .message = number(0, 10),
            .launch = std::pow(10, number(-300, 0)),
            .overlap = number(0, 1)};
  if (yes()) p.within = model::Link{number(0, 1), magnitude()};
  if (yes()) p.between = model::Link{number(0, 1), magnitude()};
  if (yes()) p.pods = model::Link{number(0, 1), magnitude()};
  if (p.within && yes())
    p.fused = model::FusedCalls{number(0, 1), number(0, 1), magnitude(), number(0, 1), yes()};
  if (p.within || p.between || yes()) p.coding = {magnitude(), magnitude()};
  while (yes())
    p.codecs[codecs[static_cast<size_t>(number(0, static_cast<double>(codecs.size())))]] = {
        magnitude(), magnitude()};
  while (yes() || (!p.within && !p.between && p.measured.empty())) {
    model::Curve curve{static_cast<plan::Collective>(number(0, 7.99)),
                       static_cast<codec::Dtype>(number(0, 2.99)),
                       static_cast<int>(number(100, 1000)),
                       static_cast<int>(number(1, 100)),
                       yes() ? "native" : "linear8:round=nearest",
                       {},
                       yes()};
    for (size_t bytes = 1; curve.points.empty() || yes(); bytes += 1 + random() % (1 << 30))
      curve.points.push_back({bytes, std::pow(10, number(-9, 5))});
    p.measured.push_back(curve);
  }
  return p;
}

// As what auto chooses from is called.
TEST(Profile, MeasuredFormatsHaveOneName) {
  const auto measured = [](std::string_view scheme) {
    return parse(fmt::format("[[measured]]\ncollective = \"allreduce\"\ndtype = \"float32\"\n"
                             "ranks = 4\nnodes = 2\nscheme = \"{}\"\npoints = [[1, 1]]\n",
                             scheme))
        .measured.front()
        .scheme;
  };
  EXPECT_EQ(measured("int8:block=128,round=nearest"), "int8");
  EXPECT_EQ(measured("int8:round=stochastic"), "int8:round=stochastic");
  EXPECT_EQ(measured("native"), "native");
  for (const char* scheme : {"int8:block=64", "int8:own=exact", "off", "auto"})
    EXPECT_NE(
        error_of([&] { measured(scheme); }).find(fmt::format("6:10: \"{}\" is no format", scheme)),
        std::string::npos)
        << scheme;
}

// To the last digit: by what they print ranks know that they have the same.
TEST(Profile, PrintsToATextThatParsesBack) {
  std::mt19937 random(5);
  for (int trial = 0; trial < test::trials(500, 50); ++trial) {
    const Profile p = random_profile(random);
    EXPECT_EQ(parse(print_profile(p)), p) << print_profile(p);
  }
}

// Names come from the command line, too.
TEST(Profile, WhatCannotBePrintedIsReplaced) {
  Profile p = parse(kMin);
  p.name = "caf\xc3\xa9\n";
  EXPECT_EQ(parse(print_profile(p)).name, "caf???");
}

TEST(Profile, ErrorsSayWhere) {
  const std::string links = "[coding]\nencode = 1\ndecode = 1\n";
  const std::string curve =
      "[[measured]]\ncollective = \"allreduce\"\ndtype = \"float32\"\nranks = 4\nnodes = 2\n"
      "scheme = \"native\"\n";
  const std::string int8 = curve.substr(0, curve.find("native")) + "int8:round=nearest\"\n";
  const struct {
    std::string text, error;
  } cases[] = {
      // what is missing
      {"",
       "1:1: the profile says nothing of links, [within] a node or [between] nodes, nor of "
       "what was [[measured]]"},
      {links,
       "1:1: the profile says nothing of links, [within] a node or [between] nodes, nor of "
       "what was [[measured]]"},
      {"[within]\nlatency = 1\nbandwidth = 1\n",
       "1:1: the profile says nothing of [coding], the rate of codecs"},
      {"\n[within]\nbandwidth = 1\n", "2:2: within has no latency, in seconds"},
      {"[between]\nlatency = 1\n", "1:2: between has no bandwidth, in bytes a second"},
      {"[coding]\nencode = 1\n", "1:2: coding has no decode, in elements a second"},
      {"[codec.int4]\ndecode = 1\n", "1:8: int4 has no encode, in elements a second"},
      // numbers that cannot be
      {"[within]\nlatency = 1e-6\nbandwidth = -1\n",
       "3:13: bandwidth is -1, but must be from 1 to 1e+15 bytes a second"},
      {"[within]\nbandwidth = 0\n",
       "2:13: bandwidth is 0, but must be from 1 to 1e+15 bytes a second"},
      {"[within]\nbandwidth = 1e16\n",
       "2:13: bandwidth is 1e+16, but must be from 1 to 1e+15 bytes a second"},
      {"[within]\nlatency = 11\n", "2:11: latency is 11, but must be from 0 to 10 seconds"},
      {"[within]\nlatency = nan\n", "2:11: latency is nan, but must be from 0 to 10 seconds"},
      {"[within]\nlatency = inf\n", "2:11: latency is inf, but must be from 0 to 10 seconds"},
      {"[within]\nlatency = -inf\n", "2:11: latency is -inf, but must be from 0 to 10 seconds"},
      {"[coding]\nencode = 0.5\n",
       "2:10: encode is 0.5, but must be from 1 to 1e+15 elements a second"},
      {"overlap = 1.5\n", "1:11: overlap is 1.5, but must be from 0 to 1"},
      {"launch = -1e-6\n", "1:10: launch is -1e-06, but must be from 0 to 10 seconds"},
      {"message = 1000\n", "1:11: message is 1000, but must be from 0 to 10 seconds"},
      {"node_ranks = 0\n", "1:14: node_ranks is 0, but must be a whole number from 1 to 1048576"},
      {"nics = 0\n", "1:8: nics is 0, but must be a whole number from 1 to 1048576"},
      {"node_ranks = 1.5\n",
       "1:14: node_ranks is 1.5, but must be a whole number from 1 to 1048576"},
      {"node_ranks = nan\n",
       "1:14: node_ranks is nan, but must be a whole number from 1 to 1048576"},
      // keys that are not known
      {"gpus = true\n", "1:1: unknown key \"gpus\"; did you mean \"gpu\"?"},
      {"version = 1\n",
       "1:1: unknown key \"version\"; known are name, source, gpu, devices, node_ranks, nics, "
       "max_nodes, message, launch, overlap, within, between, pods, fused, coding, codec and "
       "measured"},
      {"[within]\nlatncy = 1\n", "2:1: unknown key \"latncy\"; known are latency and bandwidth"},
      {"[coding]\nbandwidth = 1\n", "2:1: unknown key \"bandwidth\"; known are encode and decode"},
      {"[fused]\nlauch = 1\n", "2:1: unknown key \"lauch\"; did you mean \"launch\"?"},
      {"[fused]\nlaunch = 1\n", "1:2: fused has no flag, in seconds"},
      {"[fused]\nlaunch = 1\nflag = 1\nbandwidth = 1\noverlap = 2\n",
       "5:11: overlap is 2, but must be from 0 to 1"},
      {"[codec.itn4]\nencode = 1\n", "1:8: unknown codec \"itn4\"; did you mean \"int4\"?"},
      {"[codec]\n\"int4:block=64\" = 1\n", "2:1: unknown codec \"int4:block=64\"; known are "},
      // values of other types
      {"name = 3\n", "1:8: name is a text in quotes"},
      {"source = true\n", "1:10: source is a text in quotes"},
      {"name = \"a\\nb\"\n", "1:8: name has a character that cannot be printed as ASCII"},
      {"name = \"\\u00e9\"\n", "1:8: name has a character that cannot be printed as ASCII"},
      {"gpu = 1\n", "1:7: gpu is true or false"},
      {"launch = \"1e-6\"\n", "1:10: launch is a number"},
      {"launch = true\n", "1:10: launch is a number"},
      {"within = 3\n", "1:1: within is a table, [within]"},
      {"[[within]]\nlatency = 1\n", "1:3: within is a table, [within]"},
      {"codec = 1\n", "1:1: codec is a table, [codec]"},
      {"codec.int4 = 1\n", "1:7: int4 is a table, [int4]"},
      {"[measured]\n", "1:2: measured is a list of tables, [[measured]]"},
      {"measured = [1]\n", "1:13: measured is a table, [[measured]]"},
      // what was measured
      {"[[measured]]\nranks = 4\n", "1:1: [[measured]] has no collective"},
      {curve, "1:1: [[measured]] has no points"},
      {curve + "point = 1\n", "7:1: unknown key \"point\"; did you mean \"points\"?"},
      {"[[measured]]\nranks = 0\n",
       "2:9: ranks is 0, but must be a whole number from 1 to 1048576"},
      {"[[measured]]\ncollective = 1\n", "2:14: collective is a text in quotes"},
      {"[[measured]]\ncollective = \"allreduc\"\n",
       "2:14: unknown collective \"allreduc\"; did you mean \"allreduce\"?"},
      {"[[measured]]\ndtype = \"int32\"\n",
       "2:9: dtype \"int32\": integers are never compressed lossily"},
      {"[[measured]]\nscheme = \"int9\"\n",
       "2:10: scheme \"int9\": 9 bits are not offered, only 2 to 8"},
      {"[[measured]]\ncollective = \"allreduce\"\ndtype = \"float32\"\nranks = 2\nnodes = 3\n"
       "scheme = \"native\"\npoints = [[1, 1]]\n",
       "1:1: 2 ranks cannot be on 3 nodes"},
      {curve + "points = [[1, 1]]\n" + curve + "points = [[2, 1]]\n",
       "8:1: allreduce of float32, 4 ranks on 2 nodes, native, is [[measured]] twice"},
      {int8 + "points = [[1, 1]]\n" + curve + "points = [[1, 1]]\n" + int8 + "points = [[1, 1]]\n",
       "15:1: allreduce of float32, 4 ranks on 2 nodes, int8, is [[measured]] twice"},
      {curve + "points = []\n", "7:1: points is a list of [bytes, seconds]"},
      {curve + "points = 3\n", "7:1: points is a list of [bytes, seconds]"},
      {curve + "points = [1, 2]\n", "7:11: a point is [bytes, seconds]"},
      {curve + "points = [[1, 2, 3]]\n", "7:11: a point is [bytes, seconds]"},
      {curve + "points = [[\"1\", 2]]\n", "7:12: bytes is a number"},
      {curve + "points = [[1, true]]\n", "7:15: seconds is a number"},
      {curve + "points = [[0, 1]]\n", "7:11: no message has 0 bytes"},
      {curve + "points = [[1e30, 1]]\n", "7:11: no message has 1e+30 bytes"},
      {curve + "points = [[9223372036854775807, 1]]\n",
       "7:11: no message has 9.223372036854776e+18 bytes"},
      {curve + "points = [[nan, 1]]\n", "7:11: no message has nan bytes"},
      {curve + "points = [[1, 0]]\n", "7:11: no call takes 0 s"},
      {curve + "points = [[1, -1]]\n", "7:11: no call takes -1 s"},
      {curve + "points = [[1, 1e7]]\n", "7:11: no call takes 10000000 s"},
      {curve + "points = [[1, nan]]\n", "7:11: no call takes nan s"},
      {curve + "points = [[2, 1], [2, 2]]\n", "7:19: points come by rising size"},
      {curve + "points = [[2, 1],\n  [1, 2]]\n", "8:3: points come by rising size"},
      // no TOML
      {"name = \"a\n", "1:10: the text in quotes is not closed"},
      {"launch = 1\nlaunch = 1\n", "2:"},
      {"\xff", "1:1: "},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { parse(c.text); }), wanted = "p.toml:" + c.error;
    const bool begins = c.error.ends_with(' ') || c.error.ends_with(':');
    EXPECT_EQ(begins ? error.substr(0, wanted.size()) : error, wanted) << c.text;
  }
}

TEST(Profile, TheFirstErrorIsTheFirstInTheText) {
  EXPECT_EQ(error_of([] { parse("zz = 1\naa = 1\n"); }).substr(0, 11), "p.toml:1:1:");
}

TEST(Profile, FilesThatCannotBeRead) {
  const auto error = [](const std::string& path) { return error_of([&] { read_profile(path); }); };
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(error("a100.toml"), "a100.toml cannot be read: No such file or directory");
  EXPECT_EQ(error("h100").substr(0, 97),
            "there is no profile \"h100\": neither a file, nor one of those that `terse forecast "
            "--list` names; ");
  EXPECT_EQ(error(folder), folder + " cannot be read: Is a directory");
  EXPECT_EQ(error("/dev/zero"), "/dev/zero is neither a file nor a pipe");
  const std::string large = ::testing::TempDir() + fmt::format("large_profile{}.toml", getpid());
  std::ofstream(large) << kMin << std::string(size_t{1} << 20, '\n');
  EXPECT_EQ(error(large), large + " has more than 1M: it cannot be a profile");
  std::filesystem::resize_file(large, size_t{1} << 20);
  EXPECT_EQ(read_profile(large), parse(kMin));
  std::filesystem::remove(large);
}

}  // namespace
}  // namespace terse
