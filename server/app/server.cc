#include "app/server.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "app/files.h"
#include "app/observed.h"
#include "app/store_factory.h"
#include "app/values.h"
#include "app/version.h"

namespace once::app {
namespace {

// For the answers to calls that the pipeline gave up, before gRPC cancels what is open.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(500);

}  // namespace

Server::Server(const Settings& settings, std::unique_ptr<store::Store> store, Log* log)
    : settings_(settings),
      log_(log),
      metrics_(static_cast<size_t>(settings.metrics_max_tenants)),
      calls_(settings.log.calls, log, &metrics_),
      policy_log_(log, &metrics_),
      store_(ObserveStore(std::move(store), &metrics_)) {
  metrics_.SetStore(store_->engine());
}

Server::~Server() {
  // It asks the others.
  http_.reset();
}

absl::Status Server::Start(const ShutdownSignals& signals) {
  if (absl::Status http = StartHttp(); !http.ok()) return http;
  const StorePreparation preparation = {.migrate = settings_.migrate,
                                        .check = true,
                                        .max_result_bytes = settings_.rpc.limits.max_result_bytes,
                                        .timeout = settings_.startup_timeout};
  if (absl::Status prepared = PrepareStore(preparation, *store_, signals, *log_); !prepared.ok()) {
    return prepared;
  }
  if (absl::Status read = StartPolicies(signals); !read.ok()) return read;

  pipeline::Options options = settings_.pipeline;
  options.committers = std::min(options.committers, store_->max_write_sessions());
  options.sessions_per_committer = pipeline::kSessionsPerCommitter;  // the store may allow less
  pipeline_ = pipeline::StartPipeline(options, store_.get(), &clock_, &metrics_);
  authenticator_ = ObserveAuthenticator(
      auth::StartAuthenticator(settings_.auth, store_.get(), &clock_), &metrics_);
  rpc::ServerDependencies dependencies;
  dependencies.pipeline = pipeline_.get();
  dependencies.authenticator = authenticator_.get();
  dependencies.policies = policies_.get();
  dependencies.store = store_.get();
  dependencies.clock = &clock_;
  dependencies.observer = &calls_;
  dependencies.transport_log = [log = log_](absl::string_view text) {
    log->Warn("gRPC", {{"text", std::string(text)}});
  };
  absl::StatusOr<std::unique_ptr<rpc::RpcServer>> rpc =
      rpc::RpcServer::Start(settings_.rpc, dependencies);
  if (!rpc.ok()) return rpc.status();
  rpc_ = *std::move(rpc);

  phase_ = Phase::kServing;
  metrics_.SetReady(true);
  rpc_->SetServing(true);
  log_->Info("serving", {{"version", std::string(Version())},
                         {"store", std::string(store_->engine())},
                         {"committers", options.committers},
                         {"grpc", grpc_addresses()},
                         {"tls", settings_.rpc.tls.has_value()}});
  if (settings_.insecure_plaintext) {
    log_->Warn("WARNING: gRPC without TLS: bearer tokens cross the network in the clear");
  }
  // Last, as it tells others that all the above is done.
  log_->Flush();
  if (absl::Status written = WritePorts(); !written.ok()) return written;
  return absl::OkStatus();
}

absl::Status Server::StartHttp() {
  if (settings_.http_listen.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<HttpServer>> http =
      HttpServer::Start(*ParseHostPort(settings_.http_listen),
                        {.metrics = [this] { return metrics_.Render(log_->dropped()); },
                         .readiness = [this] { return ReadinessNow(); }});
  if (!http.ok()) {
    return absl::Status(http.status().code(),
                        absl::StrCat("--http-listen=", http.status().message()));
  }
  http_ = *std::move(http);
  log_->Info("HTTP answers", {{"http", http_address()}});
  return absl::OkStatus();
}

// Nothing is decided by policies that are not known: the server is not ready before.
absl::Status Server::StartPolicies(const ShutdownSignals& signals) {
  const auto start = [this] {
    auto policies = policy::PolicyCache::Start(settings_.policies, settings_.rpc.limits,
                                               store_.get(), &policy_log_);
    if (policies.ok()) policies_ = *std::move(policies);
    return policies.status();
  };
  return WaitForDatabase(start, settings_.startup_timeout, signals, *log_);
}

std::vector<std::string> Server::grpc_addresses() const {
  std::vector<std::string> addresses;
  for (size_t i = 0; i < settings_.rpc.listen_addresses.size(); ++i) {
    std::optional<HostPort> address = ParseHostPort(settings_.rpc.listen_addresses[i]);
    if (!address.has_value()) {  // unix:/path
      addresses.push_back(settings_.rpc.listen_addresses[i]);
      continue;
    }
    address->port = rpc_->bound_ports()[i];
    addresses.push_back(HostPortText(*address));
  }
  return addresses;
}

std::string Server::http_address() const {
  if (http_ == nullptr) return "";
  HostPort address = *ParseHostPort(settings_.http_listen);
  address.port = http_->port();
  return HostPortText(address);
}

absl::Status Server::WritePorts() {
  if (settings_.ports_file.empty()) return absl::OkStatus();
  const nlohmann::ordered_json ports = {
      {"grpc", grpc_addresses().front()}, {"http", http_address()}, {"grpc_all", grpc_addresses()}};
  absl::Status written = ReplaceFile(settings_.ports_file, ports.dump() + "\n", 0644);
  if (written.ok()) return written;
  return absl::Status(written.code(),
                      absl::StrCat("--ports-file=", settings_.ports_file, ": ", written.message()));
}

Readiness Server::ReadinessNow() const {
  switch (phase_.load()) {
    case Phase::kStarting:
      return {false, "starting, waiting for the database"};
    case Phase::kServing:
      if (!pipeline_->healthy()) return {false, "the database cannot be reached"};
      return {true, "serving"};
    case Phase::kDraining:
      return {false, "shutting down"};
  }
  return {false, ""};
}

bool Server::Shutdown(absl::Time deadline) {
  const absl::Time start = absl::Now();
  phase_ = Phase::kDraining;
  metrics_.SetReady(false);
  if (rpc_ == nullptr) return true;
  rpc_->SetServing(false);
  log_->Info("shutting down", {{"grace_seconds", absl::ToDoubleSeconds(deadline - start)}});
  absl::SleepFor(std::min(settings_.drain_delay, deadline - start));

  // Returns only when every call was answered, which is the pipeline's work: both at once. What the
  // pipeline gives up at the deadline is told why and not cut off in the same moment.
  std::thread stop_rpc([this, deadline] { rpc_->Shutdown(deadline + kLastAnswers); });
  pipeline_->Drain(deadline);
  stop_rpc.join();

  const absl::Time end = absl::Now();
  log_->Info("stopped",
             {{"seconds", absl::ToDoubleSeconds(end - start)}, {"logs_dropped", log_->dropped()}});
  return end <= deadline;
}

}  // namespace once::app
