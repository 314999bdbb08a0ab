// For the runner's own test: a file that does not compile even without a case.
int main() { return undeclared; }
#ifdef ANY
// case ANY expect: .
#endif
