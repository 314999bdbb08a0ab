// For the runner's own test: a case that is no error at all.
#ifdef HARMLESS
// case HARMLESS expect: anything
int harmless();
#endif
int main() { return 0; }
