// The models of a gateway without its listeners, for tests.
#pragma once

#include <cstdio>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvist/gateway/followed_file.h"
#include "kvist/gateway/served_models.h"
#include "kvist/gateway/shared_decisions.h"
#include "running_gateway.h"

namespace kvist::gateway {

/// A model of this one worker.
inline spec::ServedModelSpec served_model(const std::string& name, const FakeWorker& worker) {
  spec::ServedModelSpec model = gateway_spec({&worker});
  model.model = name;
  model.max_workers = 2;
  return model;
}
inline spec::GatewaySpec gateway_of(std::vector<spec::ServedModelSpec> models) {
  spec::GatewaySpec spec;
  spec.models = std::move(models);
  return spec;
}

/// The models of a gateway and the file that they follow, on a loop with a thread of its own.
class FollowedModels {
 public:
  FollowedModels(spec::GatewaySpec spec, std::string file) : file_(std::move(file)) {
    spec.threads = 1;
    shared_ =
        std::make_unique<SharedParts>(loop_, spec, std::map<std::string, net::ServerSettings>(), nullptr, nullptr);
    models_ = std::make_unique<ServedModels>(loop_, *shared_);
    for (const spec::ServedModelSpec& model : spec.models) models_->make(load_model(model).value());
    if (!models_->start()) throw std::runtime_error("the models do not start");
    followed_ = std::make_unique<FollowedFile>(loop_, *models_, file_, spec);
    decisions_ = std::make_unique<SharedDecisions>(loop_, nullptr, *models_);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~FollowedModels() {
    loop_.post([this] {
      decisions_.reset();
      followed_.reset();
      models_.reset();
      shared_.reset();
      loop_.stop();
    });
    thread_.join();
    std::remove(file_.c_str());
  }
  FollowedModels(const FollowedModels&) = delete;
  FollowedModels& operator=(const FollowedModels&) = delete;

  /// What other gateways decide, as far as the test says so. To be used within run().
  SharedDecisions& decisions() { return *decisions_; }

  /// Calls `work` with the models and what follows the file, on their thread.
  template <class Work>
  auto run(const Work& work) {
    std::promise<decltype(work(*models_, *followed_))> done;
    loop_.post([&] {
      if constexpr (std::is_void_v<decltype(work(*models_, *followed_))>) {
        work(*models_, *followed_);
        done.set_value();
      } else {
        done.set_value(work(*models_, *followed_));
      }
    });
    return done.get_future().get();
  }
  /// The file has these models from here on, and is read.
  void change(const std::vector<spec::ServedModelSpec>& models) {
    spec::GatewaySpec spec;
    spec.threads = 1;
    spec.models = models;
    std::ofstream(file_) << "gateway:\n" << spec::to_yaml(spec, 2);
    run([&](ServedModels&, FollowedFile& file) { file.take(read_settings_file(file_)); });
  }
  bool await_loaded() {
    return await([&] { return !run([](ServedModels&, const FollowedFile& file) { return file.is_loading(); }); });
  }
  /// The names of the models that there are, those that leave with a "-" behind them.
  std::vector<std::string> names() {
    return run([](const ServedModels& models, FollowedFile&) {
      std::vector<std::string> names;
      for (const ServedModel* const model : models.all())
        names.push_back(model->parts.spec.model + (model->leaves ? "-" : ""));
      return names;
    });
  }
  bool await_names(const std::vector<std::string>& expected) {
    return await([&] { return names() == expected; });
  }
  /// Gives a worker of the model a request, which has to be ended.
  dispatch::DispatchHandle begin_request(const std::string& model) {
    std::optional<dispatch::DispatchHandle> begun;
    const bool good = await([&] {
      begun = run([&](ServedModels& models, FollowedFile&) -> std::optional<dispatch::DispatchHandle> {
        const auto ticket =
            models.find(model)->parts.dispatcher.start({.prompt_tokens = 1, .blocks = nullptr}, net::now());
        return ticket ? std::optional(ticket->handle) : std::nullopt;
      });
      return begun.has_value();
    });
    if (!good) throw std::runtime_error("its worker does not become healthy");
    return *begun;
  }
  /// Requires: the model with the request leaves, and is the only one that does.
  void end_request(dispatch::DispatchHandle request) {
    run([&](const ServedModels& models, FollowedFile&) {
      for (ServedModel* const model : models.all())
        if (model->leaves) model->parts.dispatcher.finish(request, dispatch::Outcome::kCompleted, net::now());
    });
  }

 private:
  std::string file_;
  net::EventLoop loop_;
  std::unique_ptr<SharedParts> shared_;
  std::unique_ptr<ServedModels> models_;
  std::unique_ptr<FollowedFile> followed_;
  std::unique_ptr<SharedDecisions> decisions_;
  std::thread thread_;
};

}  // namespace kvist::gateway
