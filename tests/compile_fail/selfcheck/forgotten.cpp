// For the runner's own test: a case without a line that says what is expected.
#ifdef FORGOTTEN
int forgotten() { return undeclared; }
#endif
#ifdef TOLD
// case TOLD expect: undeclared
int told() { return undeclared; }
#endif
int main() { return 0; }
