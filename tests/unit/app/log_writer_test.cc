#include "app/log_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace once::app {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr char kTime[] = "[0-9-]+T[0-9:]+\\.[0-9][0-9][0-9][0-9][0-9][0-9]Z";

// Keeps what is written, write by write; the first write blocks until it is let go.
class Stream {
 public:
  explicit Stream(bool stuck = false) {
    if (!stuck) go.Notify();
  }

  LogOutput Output() {
    return [this](absl::string_view lines) {
      {
        absl::MutexLock lock(&mutex_);
        writes_.emplace_back(lines);
        changed_.SignalAll();
      }
      go.WaitForNotification();
    };
  }

  void WaitForWrites(size_t count) {
    absl::MutexLock lock(&mutex_);
    while (writes_.size() < count) changed_.Wait(&mutex_);
  }

  std::vector<std::string> writes() const {
    absl::MutexLock lock(&mutex_);
    return writes_;
  }

  // The records of all writes, without time and level.
  std::vector<std::string> records() const {
    std::vector<std::string> records;
    const std::string all = absl::StrJoin(writes(), "");
    for (absl::string_view line : absl::StrSplit(all, '\n', absl::SkipEmpty())) {
      records.emplace_back(line.substr(line.rfind(' ') + 1));
    }
    return records;
  }

  absl::Notification go;

 private:
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<std::string> writes_ ABSL_GUARDED_BY(mutex_);
};

void PushNumbers(LogWriter& writer, int begin, int end) {
  for (int i = begin; i < end; ++i) writer.Push(LogLevel::kInfo, absl::StrCat(i));
}

TEST(LogWriter, LinesStartWithTimeAndLevel) {
  for (const auto& [format, expected] :
       {std::pair(LogFormat::kText, absl::StrCat(kTime, " WARN x\n")),
        std::pair(LogFormat::kJson,
                  absl::StrCat("\\{\"time\":\"", kTime, "\",\"level\":\"warn\",x\n"))}) {
    Stream stream;
    { LogWriter(format, 16, stream.Output()).Push(LogLevel::kWarn, "x"); }
    EXPECT_THAT(stream.writes(), ElementsAre(MatchesRegex(expected)));
  }
}

TEST(LogWriter, ARecordIsWrittenWithoutAnotherThatPushesIt) {
  Stream stream;
  LogWriter writer(LogFormat::kText, 16, stream.Output());
  for (size_t i = 1; i <= 5; ++i) {
    writer.Push(LogLevel::kInfo, "alone");
    stream.WaitForWrites(i);
  }
}

TEST(LogWriter, WhatGathersDuringAWriteIsOneWrite) {
  Stream stream(true);
  {
    LogWriter writer(LogFormat::kText, 1000, stream.Output());
    PushNumbers(writer, 0, 1);
    stream.WaitForWrites(1);
    PushNumbers(writer, 1, 101);
    stream.go.Notify();
    stream.WaitForWrites(2);
    EXPECT_THAT(stream.records(), SizeIs(101));
  }
  EXPECT_THAT(stream.writes(), SizeIs(2));
}

TEST(LogWriter, LongBatchesAreCutAtLineEnds) {
  Stream stream(true);
  {
    LogWriter writer(LogFormat::kText, 1000, stream.Output());
    PushNumbers(writer, 0, 1);
    stream.WaitForWrites(1);
    for (int i = 0; i < 200; ++i) writer.Push(LogLevel::kInfo, std::string(1000, 'x'));
    writer.Push(LogLevel::kInfo, std::string(100'000, 'y'));  // more than a write has
    stream.go.Notify();
  }
  for (const std::string& lines : stream.writes()) {
    EXPECT_THAT(lines, EndsWith("\n"));
    if (std::count(lines.begin(), lines.end(), '\n') == 1) continue;  // however long
    EXPECT_THAT(lines, SizeIs(Le(size_t{64 * 1024})));
  }
  EXPECT_THAT(stream.records(), SizeIs(202));
  EXPECT_THAT(stream.writes(), SizeIs(Le(size_t{6})));
}

TEST(LogWriter, TheOldestAreDroppedTheRestKeepTheirOrder) {
  Stream stream(true);
  {
    LogWriter writer(LogFormat::kText, 4, stream.Output());
    PushNumbers(writer, 0, 1);
    stream.WaitForWrites(1);
    PushNumbers(writer, 1, 11);
    EXPECT_EQ(writer.dropped(), 6);
    stream.go.Notify();
    stream.WaitForWrites(2);
    PushNumbers(writer, 11, 13);
    EXPECT_EQ(writer.dropped(), 6);
  }
  EXPECT_THAT(stream.records(), ElementsAre("0", "7", "8", "9", "10", "11", "12"));
}

TEST(LogWriter, ManyThreadsLoseNothingAndEachKeepsItsOrder) {
  Stream stream;
  {
    LogWriter writer(LogFormat::kText, 100'000, stream.Output());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&writer, t] { PushNumbers(writer, t * 10'000, t * 10'000 + 2'000); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(writer.dropped(), 0);
  }
  std::vector<std::vector<int>> numbers(4);
  for (const std::string& record : stream.records()) {
    numbers[static_cast<size_t>(std::stoi(record) / 10'000)].push_back(std::stoi(record));
  }
  for (const std::vector<int>& each : numbers) {
    EXPECT_THAT(each, SizeIs(2'000));
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
  }
}

TEST(LogWriter, WithoutRecordsNothingIsWritten) {
  Stream stream;
  { LogWriter writer(LogFormat::kText, 16, stream.Output()); }
  EXPECT_THAT(stream.writes(), IsEmpty());
}

TEST(LogWriter, FlushReturnsWhenAllBeforeItIsWritten) {
  Stream stream;
  LogWriter writer(LogFormat::kText, 1000, stream.Output());
  writer.Flush();  // of nothing
  for (int round = 0; round < 50; ++round) {
    PushNumbers(writer, 3 * round, 3 * round + 3);
    writer.Flush();
    EXPECT_THAT(stream.records(), SizeIs(static_cast<size_t>(3 * round + 3)));
  }
}

}  // namespace
}  // namespace once::app
