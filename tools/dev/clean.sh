# ./dev clean: removes build/, with everything that was built, fetched and measured. Takes no arguments.
dev_clean() {
  rm -rf build
}
