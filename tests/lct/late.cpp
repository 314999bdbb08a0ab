// The destructor of a static object uses what the main thread has used before.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lct.h"

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(1);
}

// Longer than what strings keep inside of themselves.
void replace() {
  const std::string ours(100, '%'), expected(200, 'x');
  const char* const made = LCT_str_replace_all(ours.c_str(), "%", "xx");
  // Memory that was freed would be given out again.
  const std::string other(240, 'y');
  check(made == expected && other != expected, "the replacement");
}

struct user {
  LCT_pcounter_ctx_t counters;
  LCT_pcounter_handle_t timer;

  user() : counters(LCT_pcounter_ctx_alloc("late")) {
    timer = LCT_pcounter_register(counters, "timer", LCT_PCOUNTER_TIMER);
  }
  ~user() {
    use();
    std::FILE* const file = std::tmpfile();
    check(file != nullptr, "there is a file");
    LCT_pcounter_dump(counters, file);
    std::rewind(file);
    char text[200] = {};
    check(std::fread(text, 1, sizeof(text) - 1, file) != 0, "something was written");
    check(std::strstr(text, "late.timer: count 2 total 4.000 us") != nullptr, text);
    std::fclose(file);
    LCT_pcounter_ctx_free(&counters);
  }
  void use() {
    LCT_pcounter_startt(counters, timer, 1000);
    replace();
    volatile long long* const other = new long long[2];
    other[0] = other[1] = -1;
    LCT_pcounter_endt(counters, timer, 3000);
    delete[] other;
    LCT_pcounter_endt(counters, timer, 5000);  // nothing was begun
  }
};

user all;

}  // namespace

int main() { all.use(); }
