// rank.cc as a library that is linked to NCCL, and opened by main.cc.
int run_rank(int argc, char** argv);

extern "C" int run_plugin(int argc, char** argv) { return run_rank(argc, argv); }
