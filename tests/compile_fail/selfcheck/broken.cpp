// For the runner's own test: a file that does not compile even without a case.
// case ANY expect: .
int main() { return undeclared; }
