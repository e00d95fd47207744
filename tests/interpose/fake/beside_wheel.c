/* Stands for a framework of Python's, which brings NCCL as another package. */
int beside_wheel(void);
int beside_wheel(void) { return 1; }
