#include "auth/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "unit/auth/fake_control_store.h"

namespace once::auth {
namespace {

using base::ErrorReason;
using once::testing::FakeControlStore;
using Result = absl::StatusOr<std::shared_ptr<const Principal>>;

class FakeClock final : public base::Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixMicros(micros_.load()); }
  void Advance(absl::Duration by) { micros_ += absl::ToInt64Microseconds(by); }

 private:
  std::atomic<int64_t> micros_{1'000'000'000'000};
};

// An answer that may come later.
class Pending {
 public:
  Authenticator::Done Done() {
    return [state = state_](Result result) {
      state->result = std::move(result);
      state->answered.Notify();
    };
  }
  bool answered() const { return state_->answered.HasBeenNotified(); }
  Result Await() {
    state_->answered.WaitForNotification();
    return state_->result;
  }

 private:
  struct State {
    absl::Notification answered;
    Result result = absl::UnknownError("not answered");
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

MATCHER_P(FailsWith, reason, "") {
  *result_listener << arg.status();
  return !arg.ok() && base::DetailsOf(arg.status()).reason == reason;
}

class AuthenticatorTest : public ::testing::Test {
 protected:
  void Start() { authenticator_ = StartAuthenticator(options_, &store_, &clock_); }

  NewCredential AddCredential() {
    NewCredential made = MakeCredential();
    store::CredentialRow row;
    row.credential_id = made.credential_id;
    row.tenant = core::TenantId{7};
    row.secret_sha256 = made.secret_sha256;
    row.handler_patterns = {"points.*"};
    store_.PutCredential(row);
    return made;
  }

  Result Authenticate(const NewCredential& credential) {
    return Authenticate(credential.token.Reveal());
  }
  Result Authenticate(absl::string_view token) {
    Pending pending;
    authenticator_->Authenticate(token, pending.Done());
    return pending.Await();
  }

  // Returns when every read that was queued before has been made, by the id of a credential that
  // nobody else uses.
  void AwaitQueuedReads() { (void)Authenticate(MakeCredential()); }

  static std::string OtherSecret(const NewCredential& credential) {
    std::string token = credential.token.Reveal();
    token.back() = token.back() == 'A' ? 'E' : 'A';
    return token;
  }

  AuthenticatorOptions options_;
  FakeControlStore store_;
  FakeClock clock_;
  std::unique_ptr<Authenticator> authenticator_;
  Authenticator* authenticator_raw_ = nullptr;
  absl::Notification started_;
};

TEST_F(AuthenticatorTest, TellsWhoCalls) {
  const NewCredential credential = AddCredential();
  Start();
  const Result result = Authenticate(credential);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)->credential_id, credential.credential_id);
  EXPECT_EQ((*result)->tenant, core::TenantId{7});
  EXPECT_EQ((*result)->role, store::Role::kConsumer);
  EXPECT_THAT((*result)->handler_patterns, ::testing::ElementsAre("points.*"));
}

TEST_F(AuthenticatorTest, RefusesWithOneMessageForAllCauses) {
  const NewCredential good = AddCredential();
  const NewCredential revoked = AddCredential();
  store_.Revoke(revoked.credential_id);
  Start();
  std::vector<Result> refusals = {Authenticate(OtherSecret(good)), Authenticate(MakeCredential()),
                                  Authenticate(revoked), Authenticate("nonsense"),
                                  Authenticate("")};
  for (const Result& refusal : refusals) {
    EXPECT_THAT(refusal, FailsWith(ErrorReason::kUnauthenticated));
    EXPECT_EQ(refusal.status(), refusals[0].status());
  }
}

TEST_F(AuthenticatorTest, KnownCredentialDoesNotReachTheDatabaseAgain) {
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Authenticate(credential).ok());
    EXPECT_FALSE(Authenticate(OtherSecret(credential)).ok());
  }
  EXPECT_EQ(store_.calls(), 1);
}

TEST_F(AuthenticatorTest, GuessedIdReachesTheDatabaseOnce) {
  const NewCredential guess = MakeCredential();
  Start();
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(Authenticate(guess), FailsWith(ErrorReason::kUnauthenticated));
  }
  EXPECT_EQ(store_.calls(), 1);
}

TEST_F(AuthenticatorTest, GuessedIdsDoNotDisplaceGoodOnes) {
  options_.max_cached_refused = 2;
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(Authenticate(MakeCredential()).ok());
  }
  const int calls = store_.calls();
  EXPECT_TRUE(Authenticate(credential).ok());
  EXPECT_EQ(store_.calls(), calls);
}

TEST_F(AuthenticatorTest, CacheIsBounded) {
  options_.max_cached = 2;
  const NewCredential a = AddCredential();
  const NewCredential b = AddCredential();
  const NewCredential c = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(a).ok());
  ASSERT_TRUE(Authenticate(b).ok());
  ASSERT_TRUE(Authenticate(a).ok());  // b is the one not used for longest
  ASSERT_TRUE(Authenticate(c).ok());
  ASSERT_EQ(store_.calls(), 3);
  ASSERT_TRUE(Authenticate(a).ok());
  EXPECT_EQ(store_.calls(), 3);
  ASSERT_TRUE(Authenticate(b).ok());
  EXPECT_EQ(store_.calls(), 4);
}

TEST_F(AuthenticatorTest, RevokedCredentialIsServedNoLongerThanTheCacheTime) {
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  store_.Revoke(credential.credential_id);
  clock_.Advance(options_.cache_ttl / 2 - absl::Microseconds(1));
  EXPECT_TRUE(Authenticate(credential).ok());
  clock_.Advance(options_.cache_ttl / 2 + absl::Microseconds(1));
  EXPECT_THAT(Authenticate(credential), FailsWith(ErrorReason::kUnauthenticated));
}

TEST_F(AuthenticatorTest, CredentialInUseIsReadAgainBeforeItsCallsWouldWait) {
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  clock_.Advance(options_.cache_ttl / 2);
  store_.Hold();
  Pending served;
  authenticator_->Authenticate(credential.token.Reveal(), served.Done());
  EXPECT_TRUE(served.answered());  // without the read, which is held
  store_.AwaitCalls(2);
  store_.Release();
  AwaitQueuedReads();
  clock_.Advance(options_.cache_ttl / 2);
  const int calls = store_.calls();
  EXPECT_TRUE(Authenticate(credential).ok());  // fresh by the refresh, not by waiting
  AwaitQueuedReads();
  EXPECT_EQ(store_.calls(), calls + 2);
}

TEST_F(AuthenticatorTest, NewCredentialWorksAfterItsIdWasUnknown) {
  NewCredential credential = MakeCredential();
  Start();
  EXPECT_FALSE(Authenticate(credential).ok());
  store::CredentialRow row;
  row.credential_id = credential.credential_id;
  row.secret_sha256 = credential.secret_sha256;
  store_.PutCredential(row);
  clock_.Advance(options_.cache_ttl);
  EXPECT_TRUE(Authenticate(credential).ok());
}

TEST_F(AuthenticatorTest, ServesGoodCredentialsWhileTheDatabaseIsAway) {
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  store_.SetDown(absl::UnavailableError("gone"));
  clock_.Advance(options_.cache_ttl);
  EXPECT_TRUE(Authenticate(credential).ok());
  EXPECT_THAT(Authenticate(OtherSecret(credential)), FailsWith(ErrorReason::kUnauthenticated));
  clock_.Advance(options_.stale_ttl - absl::Microseconds(1));
  EXPECT_TRUE(Authenticate(credential).ok());
  clock_.Advance(absl::Microseconds(1));
  EXPECT_THAT(Authenticate(credential), FailsWith(ErrorReason::kStoreUnavailable));
}

TEST_F(AuthenticatorTest, UnknownCredentialsAreNotRefusedWhileTheDatabaseIsAway) {
  const NewCredential refused = MakeCredential();
  Start();
  EXPECT_THAT(Authenticate(refused), FailsWith(ErrorReason::kUnauthenticated));
  store_.SetDown(absl::UnavailableError("gone"));
  const Result result = Authenticate(MakeCredential());
  ASSERT_THAT(result, FailsWith(ErrorReason::kStoreUnavailable));
  EXPECT_TRUE(base::DetailsOf(result.status()).retry_delay.has_value());
  clock_.Advance(options_.cache_ttl);
  EXPECT_THAT(Authenticate(refused), FailsWith(ErrorReason::kStoreUnavailable));
}

TEST_F(AuthenticatorTest, RecoversWhenTheDatabaseIsBack) {
  const NewCredential credential = AddCredential();
  Start();
  store_.SetDown(absl::UnavailableError("gone"));
  EXPECT_THAT(Authenticate(credential), FailsWith(ErrorReason::kStoreUnavailable));
  store_.SetDown(absl::OkStatus());
  EXPECT_THAT(Authenticate(credential), FailsWith(ErrorReason::kStoreUnavailable));  // pause
  clock_.Advance(options_.retry_pause);
  EXPECT_TRUE(Authenticate(credential).ok());
}

TEST_F(AuthenticatorTest, RevocationIsNoticedAfterAnOutage) {
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  store_.SetDown(absl::UnavailableError("gone"));
  clock_.Advance(options_.cache_ttl);
  ASSERT_TRUE(Authenticate(credential).ok());
  store_.SetDown(absl::OkStatus());
  store_.Revoke(credential.credential_id);
  clock_.Advance(options_.retry_pause);
  (void)Authenticate(credential);  // served, and queues the read
  AwaitQueuedReads();
  EXPECT_THAT(Authenticate(credential), FailsWith(ErrorReason::kUnauthenticated));
}

TEST_F(AuthenticatorTest, HangingDatabaseDoesNotHoldUpGoodCredentials) {
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  store_.Hold();
  clock_.Advance(options_.cache_ttl);
  Pending first;
  authenticator_->Authenticate(credential.token.Reveal(), first.Done());
  store_.AwaitCalls(2);
  EXPECT_FALSE(first.answered());  // it could be revoked
  clock_.Advance(options_.refresh_patience + absl::Microseconds(1));
  Pending second;
  authenticator_->Authenticate(credential.token.Reveal(), second.Done());
  EXPECT_TRUE(second.answered());
  EXPECT_TRUE(second.Await().ok());
  store_.Release();
  EXPECT_TRUE(first.Await().ok());
}

TEST_F(AuthenticatorTest, ConnectionThatWasClosedWhileIdleIsNoFailure) {
  const NewCredential credential = AddCredential();
  Start();
  ASSERT_TRUE(Authenticate(credential).ok());
  store_.FailNext({absl::UnavailableError("server has gone away")});
  EXPECT_THAT(Authenticate(MakeCredential()), FailsWith(ErrorReason::kUnauthenticated));
  EXPECT_EQ(store_.sessions_opened(), 2);
}

TEST_F(AuthenticatorTest, OneReadAnswersAllWhoWaitForIt) {
  const NewCredential credential = AddCredential();
  Start();
  store_.Hold();
  std::vector<Pending> waiting(100);
  for (Pending& one : waiting) {
    authenticator_->Authenticate(credential.token.Reveal(), one.Done());
  }
  Pending wrong;
  authenticator_->Authenticate(OtherSecret(credential), wrong.Done());
  store_.AwaitCalls(1);
  store_.Release();
  for (Pending& one : waiting) {
    EXPECT_TRUE(one.Await().ok());
  }
  EXPECT_THAT(wrong.Await(), FailsWith(ErrorReason::kUnauthenticated));
  EXPECT_EQ(store_.calls(), 1);
}

TEST_F(AuthenticatorTest, RefusesMoreWaitingCallsThanItsBound) {
  options_.max_pending = 10;
  const NewCredential credential = AddCredential();
  Start();
  store_.Hold();
  std::vector<Pending> waiting(10);
  for (Pending& one : waiting) {
    authenticator_->Authenticate(credential.token.Reveal(), one.Done());
  }
  Pending beyond;
  authenticator_->Authenticate(MakeCredential().token.Reveal(), beyond.Done());
  ASSERT_TRUE(beyond.answered());
  EXPECT_THAT(beyond.Await(), FailsWith(ErrorReason::kOverloaded));
  store_.Release();
  for (Pending& one : waiting) {
    EXPECT_TRUE(one.Await().ok());
  }
  EXPECT_THAT(Authenticate(MakeCredential()), FailsWith(ErrorReason::kUnauthenticated));
}

TEST_F(AuthenticatorTest, DestructorAnswersWhoStillWaits) {
  Start();
  store_.Hold();
  std::vector<Pending> waiting(3);
  for (Pending& one : waiting) {
    authenticator_->Authenticate(MakeCredential().token.Reveal(), one.Done());
  }
  store_.AwaitCalls(1);
  // The destructor waits for the read that is held, so the object lives until Release.
  std::thread destroyer([authenticator = std::move(authenticator_), this]() mutable {
    authenticator_raw_ = authenticator.get();
    started_.Notify();
    authenticator.reset();
  });
  started_.WaitForNotification();
  absl::StatusCode code = absl::StatusCode::kOk;
  while (code != absl::StatusCode::kUnavailable) {
    Pending probe;
    authenticator_raw_->Authenticate(MakeCredential().token.Reveal(), probe.Done());
    code = probe.answered() ? probe.Await().status().code() : absl::StatusCode::kOk;
    std::this_thread::yield();
  }
  store_.Release();
  destroyer.join();
  EXPECT_THAT(waiting[0].Await(), FailsWith(ErrorReason::kUnauthenticated));  // its read ran
  EXPECT_THAT(waiting[1].Await(), FailsWith(ErrorReason::kDraining));
  EXPECT_THAT(waiting[2].Await(), FailsWith(ErrorReason::kDraining));
}

}  // namespace
}  // namespace once::auth
