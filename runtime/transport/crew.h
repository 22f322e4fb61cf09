#pragma once
// Inside the transports: threads for collectives, each of which blocks until its peers have come.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe::transport {

/// Runs every task at once: as many threads as tasks were under way together, kept for the next.
/// A fixed number would make collectives wait for each other in the order of calls, and two ranks
/// that call in different orders would wait for ever.
class Crew {
 public:
  ~Crew();  ///< waits for the tasks
  /// Throws std::system_error, and does not run the task, where the system gives no thread.
  void run(std::function<void()> task);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::transport
