# ./dev clean: removes build/, with everything built, downloaded and measured. Takes no arguments.
dev_clean() {
  rm -rf build
}
