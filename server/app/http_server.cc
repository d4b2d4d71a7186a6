#include "app/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace once::app {
namespace {

constexpr int kThreads = 4;
constexpr size_t kMaxWaitingConnections = 64;  // more wait in the kernel's backlog
constexpr time_t kIoTimeoutSeconds = 2;
constexpr size_t kMaxRequestBodyBytes = 1024;  // nothing here takes a body

// The library's own pool has a queue without end.
class BoundedPool final : public httplib::TaskQueue {
 public:
  BoundedPool() {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
  }

  // Blocks the accepting thread while the queue is full.
  void enqueue(std::function<void()> task) override {
    absl::MutexLock lock(&mutex_);
    while (tasks_.size() >= kMaxWaitingConnections && !stopped_) changed_.Wait(&mutex_);
    tasks_.push_back(std::move(task));
    changed_.SignalAll();
  }

  void shutdown() override {
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      changed_.SignalAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> task;
      {
        absl::MutexLock lock(&mutex_);
        while (tasks_.empty() && !stopped_) changed_.Wait(&mutex_);
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        changed_.SignalAll();
      }
      task();
    }
  }

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

class HttplibServer final : public HttpServer {
 public:
  explicit HttplibServer(HttpHandlers handlers) : handlers_(std::move(handlers)) {
    server_.new_task_queue = [] { return new BoundedPool; };  // the library deletes it
    server_.set_keep_alive_max_count(1);
    server_.set_keep_alive_timeout(kIoTimeoutSeconds);  // also for the first byte
    server_.set_read_timeout(kIoTimeoutSeconds);
    server_.set_write_timeout(kIoTimeoutSeconds);
    server_.set_payload_max_length(kMaxRequestBodyBytes);
    // The library's default is SO_REUSEPORT: two servers would share a port without a word.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    AddRoutes();
  }

  ~HttplibServer() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Bind(const HostPort& address) {
    port_ = address.port;
    bool bound = false;
    if (address.port == 0) {
      port_ = server_.bind_to_any_port(address.host);
      bound = port_ > 0;
    } else {
      bound = server_.bind_to_port(address.host, address.port);
    }
    if (!bound) {
      return absl::UnavailableError(
          absl::StrCat(HostPortText(address), ": the address cannot be bound"));
    }
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    // stop() does nothing before the accepting loop runs.
    while (!server_.is_running() && !ended_) absl::SleepFor(absl::Milliseconds(1));
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void AddRoutes() {
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(handlers_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    server_.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", "text/plain");
    });
    server_.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const Readiness readiness = handlers_.readiness();
      response.status = readiness.ready ? 200 : 503;
      response.set_content(
          absl::StrCat(readiness.ready ? "ready: " : "not ready: ", readiness.reason, "\n"),
          "text/plain");
    });
  }

  HttpHandlers handlers_;
  httplib::Server server_;
  int port_ = 0;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HostPort& address,
                                                              HttpHandlers handlers) {
  auto server = std::make_unique<HttplibServer>(std::move(handlers));
  if (absl::Status bound = server->Bind(address); !bound.ok()) return bound;
  return server;
}

absl::StatusOr<HttpReply> HttpGet(const HostPort& address, const std::string& path,
                                  absl::Duration timeout) {
  httplib::Client client(address.host, address.port);
  const auto wait = absl::ToChronoMicroseconds(timeout);
  client.set_connection_timeout(wait);
  client.set_read_timeout(wait);
  client.set_write_timeout(wait);
  const httplib::Result result = client.Get(path);
  if (!result) {
    return absl::UnavailableError(absl::StrCat(HostPortText(address), ": no answer (",
                                               httplib::to_string(result.error()), ")"));
  }
  return HttpReply{result->status, result->body};
}

}  // namespace once::app
