// A program whose NCCL is a part of a library that it uses: rank.cc, compiled into that.
int run_rank(int argc, char** argv);

int main(int argc, char** argv) { return run_rank(argc, argv); }
