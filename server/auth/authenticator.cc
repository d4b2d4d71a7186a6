#include "auth/authenticator.h"

#include <openssl/crypto.h>

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "auth/lru_map.h"
#include "base/error.h"

namespace once::auth {
namespace {

using Answer = absl::StatusOr<std::shared_ptr<const Principal>>;

// What one read of the database said about a credential.
struct Verdict {
  std::shared_ptr<const Principal> principal;  // null: unknown, expired or revoked
  core::Sha256 secret_sha256{};
  absl::Time read_at;  // before the read, so that a revocation during it is noticed in time
};

struct Waiter {
  core::Sha256 secret_sha256;
  Authenticator::Done done;
};

// A read that is queued or running. Refreshes ahead of time have no waiters.
struct Read {
  absl::Time since;
  std::vector<Waiter> waiters;
};

struct ReadyAnswer {
  Authenticator::Done done;
  Answer answer;
};

// One message for all causes: nothing tells a guesser which part was right.
absl::Status Refused() {
  return base::MakeError(base::ErrorReason::kUnauthenticated,
                         "the credential is missing, malformed, unknown, expired or revoked");
}

Answer AnswerOf(const Verdict& verdict, const core::Sha256& presented) {
  if (verdict.principal == nullptr ||
      CRYPTO_memcmp(verdict.secret_sha256.data(), presented.data(), presented.size()) != 0) {
    return Refused();
  }
  return verdict.principal;
}

Verdict VerdictOf(const absl::StatusOr<store::CredentialRow>& row, absl::Time read_at) {
  if (!row.ok() || !row->active) {
    return Verdict{.principal = nullptr, .secret_sha256 = {}, .read_at = read_at};
  }
  auto principal = std::make_shared<Principal>();
  principal->credential_id = row->credential_id;
  principal->tenant = row->tenant;
  principal->tenant_name = row->tenant_name;
  principal->role = row->role;
  principal->handler_patterns = row->handler_patterns;
  return Verdict{
      .principal = std::move(principal), .secret_sha256 = row->secret_sha256, .read_at = read_at};
}

// Reads credentials over one control session, which it opens again when it broke. One thread.
class CredentialReader {
 public:
  explicit CredentialReader(store::Store* store) : store_(store) {}

  // NOT_FOUND is an answer; every other error means that the database could not say.
  absl::StatusOr<store::CredentialRow> Get(const std::string& id) {
    absl::Status last;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (session_ == nullptr) {
        auto opened = store_->OpenControlSession();
        if (!opened.ok()) {
          return opened.status();
        }
        session_ = *std::move(opened);
      }
      auto row = session_->GetCredential(id);
      const bool answered = row.ok() || absl::IsNotFound(row.status());
      if (!session_->usable()) {
        session_.reset();
      }
      if (answered) {
        return row;
      }
      last = row.status();
    }
    return last;
  }

 private:
  // The session that was idle may have been closed by the server: one failure says nothing.
  static constexpr int kAttempts = 2;

  store::Store* const store_;
  std::unique_ptr<store::ControlSession> session_;
};

class CachingAuthenticator final : public Authenticator {
 public:
  CachingAuthenticator(const AuthenticatorOptions& options, store::Store* store,
                       const base::Clock* clock)
      : options_(options),
        clock_(clock),
        reader_(store),
        good_(options.max_cached),
        refused_(options.max_cached_refused),
        thread_([this] { Run(); }) {}

  ~CachingAuthenticator() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      work_.Signal();
    }
    thread_.join();
  }

  void Authenticate(absl::string_view token, Done done) override {
    const std::optional<ParsedToken> parsed = ParseToken(token);
    if (!parsed.has_value()) {
      std::move(done)(Refused());
      return;
    }
    std::optional<Answer> answer = AnswerNow(*parsed, &done);
    if (answer.has_value()) {
      std::move(done)(*std::move(answer));
    }
  }

 private:
  // The answer where it is known without a read; otherwise takes `done` and queues the read.
  std::optional<Answer> AnswerNow(const ParsedToken& token, Done* done) {
    absl::MutexLock lock(&mutex_);
    if (stopping_) {
      return base::MakeError(base::ErrorReason::kDraining, "the server is shutting down");
    }
    const absl::Time now = clock_->Now();
    if (const Verdict* known = Find(token.credential_id); known != nullptr) {
      if (IsFresh(*known, now)) {
        Answer answer = AnswerOf(*known, token.secret_sha256);
        if (known->principal != nullptr && now - known->read_at >= options_.cache_ttl / 2) {
          Refresh(token.credential_id, now);
        }
        return answer;
      }
      if (MayBeServedStale(*known, now) && StoreIsAway(token.credential_id, now)) {
        Answer answer = AnswerOf(*known, token.secret_sha256);
        Refresh(token.credential_id, now);
        return answer;
      }
    }
    return Wait(token, now, done);
  }

  std::optional<Answer> Wait(const ParsedToken& token, absl::Time now, Done* done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (now < paused_until_) {
      return StoreUnavailable();
    }
    if (waiting_ >= options_.max_pending) {
      return base::MakeError(base::ErrorReason::kOverloaded,
                             "too many calls wait for their credentials to be read");
    }
    Refresh(token.credential_id, now);
    reads_.at(token.credential_id)
        .waiters.push_back(Waiter{.secret_sha256 = token.secret_sha256, .done = std::move(*done)});
    ++waiting_;
    return std::nullopt;
  }

  // Queues a read of `id` unless one is queued or running, or the database is left alone for now.
  void Refresh(const std::string& id, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (now < paused_until_) {
      return;
    }
    const auto [read, added] = reads_.try_emplace(id);
    if (added) {
      read->second.since = now;
      queue_.push_back(id);
      work_.Signal();
    }
  }

  Verdict* Find(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Verdict* const good = good_.Find(id);
    return good != nullptr ? good : refused_.Find(id);
  }

  bool IsFresh(const Verdict& verdict, absl::Time now) const {
    return now >= verdict.read_at && now - verdict.read_at < options_.cache_ttl;
  }

  bool MayBeServedStale(const Verdict& verdict, absl::Time now) const {
    return verdict.principal != nullptr &&
           now - verdict.read_at < options_.cache_ttl + options_.stale_ttl;
  }

  bool StoreIsAway(const std::string& id, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (failing_) {
      return true;
    }
    const auto read = reads_.find(id);
    return read != reads_.end() && now - read->second.since > options_.refresh_patience;
  }

  static absl::Status StoreUnavailable() {
    return base::MakeError(base::ErrorReason::kStoreUnavailable,
                           "the credential cannot be checked: the database cannot be reached");
  }

  void Run() {
    std::optional<std::string> id;
    while ((id = NextRead()).has_value()) {
      const absl::Time read_at = clock_->Now();
      const absl::StatusOr<store::CredentialRow> row = reader_.Get(*id);
      Send(row.ok() || absl::IsNotFound(row.status()) ? Accept(*id, VerdictOf(row, read_at))
                                                      : GiveUpAll());
    }
    Send(RefuseAll());
  }

  std::optional<std::string> NextRead() {
    absl::MutexLock lock(&mutex_);
    while (!stopping_ && queue_.empty()) {
      work_.Wait(&mutex_);
    }
    if (stopping_) {
      return std::nullopt;
    }
    std::string id = std::move(queue_.front());
    queue_.pop_front();
    return id;
  }

  static void Send(std::vector<ReadyAnswer> ready) {
    for (ReadyAnswer& one : ready) {
      std::move(one.done)(std::move(one.answer));
    }
  }

  std::vector<ReadyAnswer> Accept(const std::string& id, Verdict verdict) {
    absl::MutexLock lock(&mutex_);
    failing_ = false;
    std::vector<ReadyAnswer> ready;
    const auto read = reads_.find(id);
    for (Waiter& waiter : read->second.waiters) {
      ready.push_back({std::move(waiter.done), AnswerOf(verdict, waiter.secret_sha256)});
    }
    waiting_ -= ready.size();
    reads_.erase(read);
    good_.Erase(id);
    refused_.Erase(id);
    (verdict.principal != nullptr ? good_ : refused_).Insert(id, std::move(verdict));
    return ready;
  }

  // The database could not say: one failure answers everybody, so that each does not wait for a
  // failure of its own.
  std::vector<ReadyAnswer> GiveUpAll() {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = clock_->Now();
    failing_ = true;
    paused_until_ = now + options_.retry_pause;
    std::vector<ReadyAnswer> ready;
    for (auto& [id, read] : reads_) {
      const Verdict* const known = Find(id);
      const bool stale = known != nullptr && MayBeServedStale(*known, now);
      for (Waiter& waiter : read.waiters) {
        ready.push_back({std::move(waiter.done), stale ? AnswerOf(*known, waiter.secret_sha256)
                                                       : Answer(StoreUnavailable())});
      }
    }
    ForgetReads();
    return ready;
  }

  std::vector<ReadyAnswer> RefuseAll() {
    absl::MutexLock lock(&mutex_);
    std::vector<ReadyAnswer> ready;
    for (auto& [id, read] : reads_) {
      for (Waiter& waiter : read.waiters) {
        ready.push_back({std::move(waiter.done), base::MakeError(base::ErrorReason::kDraining,
                                                                 "the server is shutting down")});
      }
    }
    ForgetReads();
    return ready;
  }

  void ForgetReads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reads_.clear();
    queue_.clear();
    waiting_ = 0;
  }

  const AuthenticatorOptions options_;
  const base::Clock* const clock_;
  CredentialReader reader_;  // used by thread_ only

  absl::Mutex mutex_;
  absl::CondVar work_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  LruMap<Verdict> good_ ABSL_GUARDED_BY(mutex_);
  LruMap<Verdict> refused_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Read> reads_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);  // ids in reads_ that are not running
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;             // waiters in reads_
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;           // the last read failed
  absl::Time paused_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  std::thread thread_;  // last: runs on all of the above
};

}  // namespace

std::unique_ptr<Authenticator> StartAuthenticator(const AuthenticatorOptions& options,
                                                  store::Store* store, const base::Clock* clock) {
  return std::make_unique<CachingAuthenticator>(options, store, clock);
}

}  // namespace once::auth
