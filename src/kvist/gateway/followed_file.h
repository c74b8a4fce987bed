// The gateway's file while it runs: what changes in it is carried out, as far as that is possible.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/gateway/served_models.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Checks what the reader of a gateway's settings does not check, and removes the slash at the end of URLs.
[[nodiscard]] Result<void> check(spec::GatewaySpec& gateway);

/// What a gateway's file says. Reading and checking a long one takes its time. Errors name the file. Threads: any.
[[nodiscard]] Result<spec::GatewaySpec> read_settings_file(const std::string& file);

/// Follows the lists of workers with their groups, models' further names, the time to drain and, if there is a list of
/// models, that list. Every other change
/// needs a restart; the log repeats that each time the file is read, until the restart. Threads: the loop's.
class FollowedFile {
 public:
  /// `now`: what the file says now. Requires: the loop and the models outlive this object.
  FollowedFile(net::EventLoop& loop, ServedModels& models, std::string file, spec::GatewaySpec now);
  ~FollowedFile();
  FollowedFile(const FollowedFile&) = delete;
  FollowedFile& operator=(const FollowedFile&) = delete;

  /// The file was read again. Begins to carry out what is different. A file that is not good changes nothing.
  void take(const Result<spec::GatewaySpec>& read);
  /// The gateway is shutting down. The file is not followed any more, and a model that is being loaded is not served.
  void stop() { stopped_ = true; }
  /// Whether a model is being loaded.
  [[nodiscard]] bool is_loading() const { return loading_ > 0; }

 private:
  void carry_out(const spec::GatewaySpec& next);
  /// Carries out the changes of a model that stays. Changes `before` to the part of `next` that was carried out.
  void carry_out(spec::ServedModelSpec& before, const spec::ServedModelSpec& next);
  void remove_models(const spec::GatewaySpec& next);
  /// Adds the model now, or once the model in its way is gone.
  void load_when_possible(const spec::ServedModelSpec& model);
  void load(spec::ServedModelSpec model);
  void on_loaded(const spec::ServedModelSpec& asked, Result<LoadedModel> loaded);

  net::EventLoop* loop_;
  ServedModels* models_;
  std::string file_;
  spec::GatewaySpec in_file_;                        // as far as it was carried out
  std::unique_ptr<ReadingPool> loader_ = {};         // null until a model is added
  std::size_t loading_ = 0;                          // models
  std::optional<spec::GatewaySpec> next_ = {};       // the file changed meanwhile
  std::vector<spec::ServedModelSpec> waiting_ = {};  // models of the file that are not loaded yet
  bool stopped_ = false;
};

}  // namespace kvist::gateway
