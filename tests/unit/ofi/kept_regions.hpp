// Registrations on the fake library with the cache behind them, and no fabric around. Threads: the
// test's. Always true: nobody tells of memory that is unmapped.
#pragma once

#include <optional>
#include <string>

#include "backends/ofi/region.hpp"
#include "backends/ofi/select.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {

struct no_news final : mem::unmap_source {
  std::string start(mem::unmap_listener&) override { return ""; }
  void stop(mem::unmap_listener&) noexcept override {}
};

class kept_regions {
 public:
  // On what the fake library is now.
  void open() {
    std::string why;
    on_ = choose(settings_of(config), why);
    fid_fabric* fabric = nullptr;
    ASSERT_EQ(library().fabric(on_.info->fabric_attr, &fabric, nullptr), 0);
    fabric_.reset(fabric);
    fid_domain* domain = nullptr;
    ASSERT_EQ(fi_domain(fabric, on_.info.get(), &domain, nullptr), 0);
    handle_.reset(domain);
    domain_ = {on_.info.get(), fabric, domain, on_.name()};
    config.arena = &arena;
    config.regions = &table_;
    config.use_reg_cache = true;
    all.emplace(domain_, nullptr, config, news_);
  }

  mem::arena arena;
  net::fabric_config config;

 private:
  mem::region_table table_{arena};
  no_news news_;
  candidate on_;
  fabric_handle fabric_;
  domain_handle handle_;
  opened_domain domain_;

 public:
  std::optional<regions> all;
};

}  // namespace lci::ofi
