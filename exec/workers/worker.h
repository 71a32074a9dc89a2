// SPDX-License-Identifier: Apache-2.0
#pragma once
// One worker: its device, its memory, and what its ops do. Internal to exec.
#include <functional>
#include <memory>
#include <vector>

#include "exec/data/loader.h"
#include "exec/layout/copies.h"
#include "exec/layout/half_gradients.h"
#include "exec/run/lane_driver.h"
#include "exec/run/run.h"
#include "schemes/compression.h"

namespace tandem::exec {

/// Made by any thread. Then open() by the compute lane's thread, and once all workers are open run() by each
/// lane's thread; drain() when these have ended. What was recorded and what lies in the device's memory is
/// read after the run, by one thread at a time.
class Worker {
 public:
  Worker(Run& run, uint32_t instance);
  ~Worker();

  /// Does the lane have a thread of its own? Before open(), too.
  bool needs_thread(Lane lane) const;
  /// DeviceSession, memory and prepared calls. Throws DeviceError and InputError.
  void open();
  /// Walks the ops of all iterations that this lane's thread sees to. Throws what an op throws, and Stopped.
  void run(Lane lane);
  /// After a failed run: until the device does nothing more, in which others' memory may take part.
  void drain() noexcept;

  const std::vector<Executed>& executed(Lane lane) const { return lanes_[lane].executed; }
  const LaneState& lane(Lane lane) const { return lanes_[lane]; }
  const std::vector<double>& losses() const { return driver_->losses(); }  ///< [iteration]
  const std::vector<CallTime>& calls() const { return driver_->calls(); }
  const std::vector<Issued>& issued() const {
    return driver_->issued();
  }  ///< [iteration]; empty with threads
  std::vector<LibraryChoice> choices() const { return device_->choices(); }
  /// Seconds that the device's library expected of a collective, asked with Keep::calls; 0: it did not say.
  double estimate(uint32_t op) const { return estimates_[op]; }
  /// Of such a collective: seconds of each of 20 in a row; 0: not measured.
  double in_row(uint32_t op) const { return in_row_[op]; }
  /// Bytes that an op hands to its collective or sends, in an iteration; 0: it does neither.
  int64_t bytes(uint32_t op) const { return bytes_[op]; }
  /// From the device's memory.
  std::vector<float> parameters() const;
  std::vector<float> state() const;
  std::vector<float> averaging() const;  ///< ExecutionResult::averaging
  std::vector<float> values(TensorId tensor) const;
  const std::vector<GradientNorms>& norms() const { return norms_; }  ///< [step], with Keep::norms

 private:
  using Act = std::function<int64_t(int32_t iteration)>;  ///< LaneOp::act
  using Range = std::pair<int64_t, int64_t>;              ///< of the flat vector, end excluded

  const Role& role() const { return run_.role(instance_); }
  const ExecutionGraph& graph() const { return run_.stages().lowered(instance_); }
  /// `variant`: of the input's buffer, or the slot of a micro-batch.
  float* tensor(TensorId t, int64_t variant = 0) const;
  /// Is the optimiser's state on the host, and the parameters that it updates?
  bool offloads() const { return run_.execution().job.offload.optimizer; }
  float* state_memory() const { return paged_ ? paged_ : parameters_ + held_parameters_.elements; }
  /// In 4 bytes, of the optimiser's state.
  int64_t state_words() const;
  void set_start_state();
  /// Behind an update's operands, from `memory` on: the state from an element of the flat vector on, as far
  /// as one part of kept_state_ goes.
  void add_state(std::vector<float*>& operands, float* memory, int64_t first) const;
  /// From an element of the flat vector on: where passes read parameters and leave gradients, as far as a
  /// bucket goes ...
  float* parameters_at(int64_t first) const { return parameters_ + held_parameters_.passes.of(first); }
  float* gradients_at(int64_t first) const { return gradients_ + held_gradients_.passes.of(first); }
  /// ... and where the worker keeps its own, as far as its share does.
  float* own_parameters(int64_t first) const { return parameters_ + held_parameters_.kept.of(first); }
  float* own_gradients(int64_t first) const { return gradients_ + held_gradients_.kept.of(first); }
  bool in_gather_buffer(uint32_t key) const {
    return run_.stages().gather_buffers(instance_).parameters.at[key] >= 0;
  }
  bool gradients_in_gather_buffer(uint32_t key) const {
    return run_.stages().gather_buffers(instance_).gradients.at[key] >= 0;
  }
  int64_t slot(const Op& op) const;
  std::vector<float> read(const float* from, int64_t elements) const;
  void allocate();
  void allocate_on_host();
  void set_start_values();
  void find_uses();
  void forget(uint32_t key, Lane lane);
  Act bring_share(uint32_t index);
  Act keep_share(uint32_t index);
  void make_loader();
  void set_first_batches();
  void keep_averaging();
  static void join_ranges(std::vector<Range>& ranges);
  void find_flat_ranges();
  void meet_store();
  void join_groups();
  Act action(uint32_t index);
  Act compute(uint32_t index);
  bool judges_later(uint32_t index) const;
  bool judges_step(uint32_t index) const;
  Act layers(uint32_t index);
  struct Work;
  Work work_of(uint32_t index) const;
  void launch_layers(const Work& work, std::size_t variant, const IterationState& state);
  Act collective(uint32_t index);
  struct Meeting;
  int64_t meet(const Meeting& meeting, float* at);
  double time_in_row(const Meeting& meeting, float* at);
  Act with_norms(uint32_t index, Act act);
  int64_t noting_norms(Slice gradients, int32_t iteration, const std::function<int64_t()>& sum);
  void coordinate();
  Act exchange_tokens(uint32_t index);
  Act send(uint32_t index);
  Act send_to_peer(uint32_t index);
  Act receive(const Op& op);
  bool asks(const Op& op) const;
  bool acknowledges(const Op& op) const;
  Act ask(uint32_t index);
  Act receive_answers(const Op& op);
  Act send_model(uint32_t index);
  Act receive_model(uint32_t index);
  Act receive_from_peer(uint32_t index);
  std::vector<MessagePart> message(const Op& op, bool arrives) const;
  Slice tied_share(const Op& op) const;
  std::vector<MessagePart> tied_message(const Op& op, bool arrives) const;
  Act copy(uint32_t index);
  Act input(const Op& op, CopyKind stage);
  Act offload(uint32_t index);
  Act reload(uint32_t index);
  Act add_on_host(const Op& op);
  Act update_on_host(const Op& op, const Slice& part);
  float* half_memory(const Op& op) const;
  void narrow_gradients(const HalfGradients& form, float* words, const float* gradients, Lane lane);
  void upcast_gradients(const HalfGradients& form, uint32_t rank, float* gradients, const float* words,
                        Lane lane);
  static Slice half_part(const HalfGradients& form, uint32_t part);
  Act cast_gradients(const Op& op);
  struct Buffer;
  Buffer buffer(uint32_t index) const;
  Buffer buffer_of_layer(uint32_t index) const;
  bool averages_share(const Op& op) const;
  void move_parts(const Buffer& whole, uint32_t rank, bool out, Lane lane);
  uint32_t exchanges_before(uint32_t layer, uint32_t index) const;
  uint32_t part_of(uint32_t layer, uint32_t index) const;
  const ExchangedTensors& exchanged(uint32_t index) const;
  Slice updated(uint32_t index) const;
  Call update_call(const Op& op, const Slice& part) const;
  Launch update(const Op& op, const Slice& part);
  void narrow_share(uint32_t key, float* words, Lane lane);
  void upcast_shards(uint32_t key, const Run::Member& m, const float* words, int64_t each, Lane lane);
  CompressedBucket compressed(uint32_t key) const;
  int64_t message_words(uint32_t key) const;
  int64_t pushed(uint32_t key) const;
  int64_t messages_before(uint32_t key) const;
  float* messages(uint32_t key) const;
  Act compress_pushes(const Op& op);
  void begin_compressed();
  Act compress(const Op& op);
  std::pair<float*, int64_t> compressed_words_of(uint32_t index) const;
  Act update_late(const Op& op, const Slice& part, int32_t lag);
  Act update_model(const Op& op, const Slice& part);
  Act average(const Op& op, const Slice& part);
  void allocate_copies();
  CopiedRange copied(const Slice& part) const;
  CopiedRange all_copied() const;
  CopiedRange written_by(const Op& op) const;
  void renew(const CopiedRange& range, Lane lane);
  Call with_copies(const Call& lowered, std::vector<float*>& behind) const;
  void renew_by(Call& update, std::vector<float*>& operands, const Slice& part) const;
  Launch prepare(const Call& call);
  void prepare_layer(uint32_t layer);
  void integers(int64_t begin, int64_t end, int32_t iteration);
  /// Which of a step's gradients these are: the first, the last, both or one in between.
  struct Position {
    bool first = true, last = true;
  };
  Position position(Position of_op, int32_t iteration) const;
  void find_positions();
  bool has_input() const;
  void load_batch(int64_t batch, std::size_t variant, int32_t iteration, Lane lane);
  void add_up(int64_t begin, int64_t end, Position position, Lane lane);
  void fill_batch(int64_t batch, float* host) const;
  void fill_samples(const Dataset& data, int64_t batch, uint32_t replica, bool labels, float* to) const;
  void fill_stored(int64_t batch, uint32_t replica, bool labels, float* to) const;
  void fill_tokens(int64_t batch, uint32_t replica, bool labels, int64_t count, float* to) const;
  void draw_samples(int64_t batch, uint32_t replica, const Tensor& x, TensorId same, int64_t count,
                    float* to) const;

  Run& run_;
  uint32_t instance_;
  Lanes lanes_;
  std::unique_ptr<DeviceSession> device_;
  std::unique_ptr<LaneDriver> driver_;
  std::unique_ptr<Loader> loader_;  ///< of stored pictures; null where none are loaded
  float *inputs_ = nullptr, *arena_ = nullptr, *parameters_ = nullptr, *gradients_ = nullptr,
        *sums_ = nullptr, *frozen_ = nullptr, *outputs_ = nullptr, *narrowed_ = nullptr, *tied_ = nullptr,
        *joined_ = nullptr, *reloaded_ = nullptr;
  float* half_ = nullptr;  ///< gradients on their way in 2 bytes (half_gradients.h)
  Copies copies_of_;
  float* copies_ = nullptr;
  Held held_parameters_, held_gradients_;
  PackedLayout kept_state_;  ///< of the flat vector, in each vector of the state's, also on the host
  OptimizerState optimizer_state_;
  float* paged_ = nullptr;      ///< the state, where it lies in host memory that the device reads and writes
  PackedLayout summed_apart_;   ///< likewise, in sums_
  float* averaging_ = nullptr;  ///< flat vectors that averaging keeps: anchor, velocity
  float* delayed_ = nullptr;    ///< flat gradients of iterations i % Program::delay, until they are applied
  float *messages_ = nullptr, *left_out_ = nullptr;  ///< of compressed gradients: what travels, and feedback
  std::unique_ptr<DeviceSession> host_;  ///< where updates are offloaded: the processors that make them
  /// There: flat parameters, gradients and state, parameters on their way up in 2 bytes, and the sums of
  /// micro-batches.
  float *host_parameters_ = nullptr, *host_gradients_ = nullptr, *host_state_ = nullptr,
        *host_narrowed_ = nullptr, *host_sums_ = nullptr;
  int64_t variants_ = 1;  ///< copies of the input's buffer: of several iterations when loaded ahead
  int64_t slots_ = 1;     ///< of the arena, and of the input's buffer: of several micro-batches
  /// What a store reads and writes in place of gradients and parameters (LaneDriver::host_memory).
  float *sent_ = nullptr, *replies_ = nullptr;
  float *outgoing_ = nullptr, *incoming_ = nullptr;  ///< what these are copies of, on the device
  float* sent_messages_ = nullptr;                   ///< of messages_, likewise
  std::vector<float> models_;  ///< of Run::own_models: the one sent and the mean that came back
  /// A layer's calls. Where devices exchange something in the middle of a pass they are run part by part.
  struct LayerLaunches {
    std::vector<std::vector<Launch>> forward, data;  ///< [part]: of forward, of the inputs' gradients
    std::vector<Launch> backward, weights;           ///< all of backward; of it the parameters' gradients
    std::vector<Launch> recompute;                   ///< forward once more
  };
  std::vector<LayerLaunches> layers_;  ///< [layer]
  std::vector<Position> op_position_;  ///< [op]
  std::vector<std::vector<uint32_t>>
      forgets_;                 ///< [op]: buckets that nothing needs until they are gathered again
  std::vector<int64_t> whole_;  ///< [element of the flat vector] of integer gradients: in the model's
  std::vector<std::vector<Range>> flat_;     ///< [layer]: disjoint, increasing
  std::vector<Counter> pushed_;              ///< [key]: iterations
  std::vector<Counter> replied_;             ///< [key]: slices, of shards that are not behind links
  std::vector<std::function<void()>> asks_;  ///< one an op that the device's library does
  std::vector<double> estimates_, in_row_;   ///< [op]
  std::vector<GradientNorms> norms_;         ///< [step]
  std::vector<int64_t> bytes_;               ///< [op]
};

/// Of the steps from `first` on, as means over the workers.
std::vector<GradientNorms> mean_norms(const std::vector<std::unique_ptr<Worker>>& workers, std::size_t first);

}  // namespace tandem::exec
