// For the runner's own test: a case that is refused for another reason than the one it names.
int main() {
#ifdef TYPO
  // case TYPO expect: no member named .*colour
  return undeclared;
#else
  return 0;
#endif
}
