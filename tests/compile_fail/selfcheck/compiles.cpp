// For the runner's own test: a case that is no error at all.
// case HARMLESS expect: anything
#ifdef HARMLESS
int harmless();
#endif
int main() { return 0; }
