// For the runner's own test: a case that is refused for another reason than the one it names.
// case TYPO expect: no member named .*colour
int main() {
#ifdef TYPO
  return undeclared;
#else
  return 0;
#endif
}
