/* SPDX-License-Identifier: GPL-2.0 */
/* Linux driver of the longshore NIC: what its files share. */
#ifndef LONGSHORE_NIC_H
#define LONGSHORE_NIC_H

#include <linux/ethtool.h>
#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/u64_stats_sync.h>
#include <linux/xarray.h>
#ifdef LONGSHORE_PAGE_POOL_TYPES
#include <net/page_pool/helpers.h>
#else
#include <net/page_pool.h>
#endif
#include <net/xdp.h>

#include "compat.h"
#include "hw.h"

/* Rings are little endian, and their indices of 64 bits are read and written at once. */
#if defined(__BIG_ENDIAN) || !defined(CONFIG_64BIT)
#error "longshore needs a little-endian processor of 64 bits"
#endif

#define LONGSHORE_NAME		"longshore"

#define LONGSHORE_MAX_QUEUES	16
#define LONGSHORE_MIN_ENTRIES	64
#define LONGSHORE_SEND_ENTRIES	512
#define LONGSHORE_RECV_ENTRIES	1024
#define LONGSHORE_COMMANDS	16
#define LONGSHORE_LARGE_ENTRIES	64
#define LONGSHORE_CONTEXTS	4096
/* Of these, for NVMe/TCP. */
#define LONGSHORE_DDP_CONTEXTS	256

/* A buffer for one packet has 4 KiB, one for coalesced or long packets 64 KiB. */
#define LONGSHORE_SMALL_ORDER	0
#define LONGSHORE_LARGE_ORDER	4
/*
 * Packets up to here are copied, so that their buffer goes back at once, and a socket is not
 * charged with a large one for little.
 */
#define LONGSHORE_SMALL_COPYBREAK	256
#define LONGSHORE_LARGE_COPYBREAK	6144
/* Bytes of a packet that are in its linear part if it is not copied: its headers. */
#define LONGSHORE_HEADER_BYTES	256

/* Memory of a packet: its linear part, and its fragments. */
#define LONGSHORE_TX_PARTS	(MAX_SKB_FRAGS + 1)
/* Slots of a packet, and of what brings its context to where it begins. */
#define LONGSHORE_TX_SLOTS	(2 * (1 + LONGSHORE_MAX_CONTINUATIONS))
/* A packet of the largest number of slices fits. */
#define LONGSHORE_TX_ROOM	(2 * LONGSHORE_TX_SLOTS)

/**
 * struct longshore_ring - the driver's side of a ring
 * @at: the ring in coherent memory: tail, head, asleep, slots
 * @mask: slots, less one
 * @slot: bytes of a slot
 * @ours: the index that the driver advances
 */
struct longshore_ring {
	void *at;
	u32 mask;
	u32 slot;
	u64 ours;
};

/**
 * struct longshore_tx_part - memory that a descriptor names
 * @dma: where the device finds it
 * @len: its bytes
 * @page: its page, if the descriptor has a reference of its own to it
 * @offset: where it begins in that
 */
struct longshore_tx_part {
	dma_addr_t dma;
	u32 len;
	u32 offset;
	struct page *page;
};

/**
 * struct longshore_tx_wait - who waits for a command
 * @done: the device has carried it out, or not
 * @error: why it has not
 * @users: who waits, and the ring
 */
struct longshore_tx_wait {
	struct completion done;
	int error;
	refcount_t users;
};

/**
 * struct longshore_tx_buffer - a descriptor that the device works on, by its first slot
 * @skb: the packet, if it is one of the kernel's
 * @frame: the packet, if it is one of XDP's
 * @wait: who waits for it
 * @bytes: what byte queue limits count of it
 * @slots: slots that it takes, 0 where there is none
 * @count: how many of @parts there are
 * @linear: the first of @parts is the linear part of the packet
 * @parts: its memory
 */
struct longshore_tx_buffer {
	struct sk_buff *skb;
	struct xdp_frame *frame;
	struct longshore_tx_wait *wait;
	u32 bytes;
	u8 slots;
	u8 count;
	bool linear;
	struct longshore_tx_part parts[LONGSHORE_TX_PARTS];
};

/**
 * struct longshore_rx_buffer - a buffer that the device has, or that may be given to it
 * @node: by @dma, while the device has it
 * @page: its memory
 * @dma: where the device writes a packet, behind the headroom
 */
struct longshore_rx_buffer {
	struct hlist_node node;
	struct page *page;
	dma_addr_t dma;
};

/**
 * struct longshore_fill - buffers of one size
 * @ring: where they are given to the device
 * @pool: where their memory comes from
 * @rxq: the same for programs of XDP
 * @buffers: all of them
 * @free: those that the device has not, a stack
 * @free_count: how many these are
 * @order: of their pages
 * @headroom: bytes before a packet
 * @room: bytes that the device has for a packet
 * @copybreak: packets up to here are copied
 */
struct longshore_fill {
	struct longshore_ring ring;
	struct page_pool *pool;
	struct xdp_rxq_info rxq;
	struct longshore_rx_buffer *buffers;
	struct longshore_rx_buffer **free;
	u32 free_count;
	u32 order;
	u32 headroom;
	u32 room;
	u32 copybreak;
};

/**
 * struct longshore_frame - a received packet in its buffer
 * @offset: where in the buffer it begins
 * @len: its bytes
 * @header_len: of these, headers, as far as the device knows
 * @meta_len: bytes before it that a program of XDP has put there for others
 */
struct longshore_frame {
	u32 offset;
	u32 len;
	u32 header_len;
	u32 meta_len;
};

struct longshore_tx_stats {
	u64_stats_t packets;
	u64_stats_t bytes;
	u64_stats_t tso_packets;
	u64_stats_t doorbells;
	u64_stats_t stopped;
	u64_stats_t dropped;
	u64_stats_t xdp_xmit;
	u64_stats_t xdp_xmit_full;
	u64_stats_t tls_encrypted_packets;
	u64_stats_t tls_encrypted_bytes;
	u64_stats_t tls_ooo;
	u64_stats_t tls_fallback;
	u64_stats_t tls_skip_no_sync_data;
	u64_stats_t tls_drop_no_sync_data;
	struct u64_stats_sync sync;
};

struct longshore_rx_stats {
	u64_stats_t packets;
	u64_stats_t bytes;
	u64_stats_t csum_unnecessary;
	u64_stats_t lro_packets;
	u64_stats_t lro_bytes;
	u64_stats_t copied;
	u64_stats_t no_memory;
	u64_stats_t unknown_buffer;
	u64_stats_t refused;
	u64_stats_t xdp_pass;
	u64_stats_t xdp_drop;
	u64_stats_t xdp_aborted;
	u64_stats_t xdp_tx;
	u64_stats_t xdp_tx_full;
	u64_stats_t xdp_redirect;
	u64_stats_t xdp_redirect_err;
	u64_stats_t xdp_held;
	u64_stats_t tls_decrypted_packets;
	u64_stats_t tls_decrypted_bytes;
	u64_stats_t tls_resync_req_start;
	u64_stats_t tls_resync_req_pkt;
	u64_stats_t nvme_placed_bytes;
	u64_stats_t nvme_verified_bytes;
	u64_stats_t nvme_resync_req;
	struct u64_stats_sync sync;
};

struct longshore_queue {
	struct longshore_nic *nic;
	struct napi_struct napi;
	u16 index;

	/* Transmission: under the lock of its netdev_queue, but for @tx_done, which NAPI has. */
	struct longshore_ring send ____cacheline_aligned_in_smp;
	struct longshore_tx_buffer *tx;
	u64 tx_published;
	u64 tx_done;
	struct longshore_tx_stats tx_stats;

	/* Reception: NAPI's. */
	struct longshore_ring receive ____cacheline_aligned_in_smp;
	struct longshore_fill small;
	struct longshore_fill large;
	DECLARE_HASHTABLE(given, 10);
	/* Sent before the events up to @heard came: cleaned up when these have been looked at. */
	u64 sent;
	u64 heard;
	/* A program of XDP has sent packets by this queue, and elsewhere, since the last flush. */
	bool xdp_sent;
	bool xdp_redirected;
	struct longshore_rx_stats rx_stats;

	/* Until when the device does not interrupt. */
	struct hrtimer pause;

	char name[IFNAMSIZ + 12];
};

/**
 * struct longshore_nic - a function of the device
 * @netdev: its network device
 * @pdev: the PCI function
 * @regs: its registers
 * @limits: what the device allows
 * @queues: as many as it allows
 * @event_vector: the interrupt by which the device tells of itself
 * @contexts: most of its contexts
 * @queue_count: how many of them are in use
 * @send_entries: slots of each send ring
 * @recv_entries: slots of each receive ring and of each ring of small buffers
 * @rx_usecs: how long a queue waits after it has polled something, until it is interrupted again
 * @block: the rings of all queues
 * @block_dma: where the device finds them
 * @block_bytes: their size
 * @rss: how received packets are to be spread; the RTNL lock's, as what follows
 * @rss_memory: where the device reads that
 * @rss_dma: where the device finds it
 * @xdp: buffers are laid out for a program of XDP, and the device merges no packets
 * @program: the program; NAPI reads it, which sees one only with such buffers
 * @up: the device works on the rings; changed under the locks of all transmit queues
 * @epoch: how often the device has been given new rings
 * @tls: connections whose records the device transforms, by their contexts
 * @ddp: connections of NVMe/TCP whose data the device places, by their contexts
 * @ddp_contexts: most of these; their numbers are those behind @contexts
 * @ddp_task: takes back buffers for which the ring had no room
 * @tls_tx_contexts: how many there have been that send
 * @tls_rx_contexts: how many there have been that receive
 * @tls_resync_res_ok: answers to the device's questions where a record begins
 * @tls_resync_res_retry: how often one of these found no room on the ring
 * @tls_owes: there may be some that wait for room
 * @reset_task: sets the function up anew
 * @open_task: tries again to, a second after that has failed
 * @filter_task: tells the device which multicast frames are to be received
 * @resets: how often that happened
 * @reason: why it is to happen
 * @last_reason: why it was to happen the last time
 * @returned: it is to happen as there is a NIC again
 * @devlink: what devlink shows
 * @reporter: devlink's account of the function's health
 */
struct longshore_nic {
	struct net_device *netdev;
	struct pci_dev *pdev;
	void __iomem *regs;
	struct longshore_limits limits;

	struct longshore_queue *queues;
	u32 event_vector;
	u32 contexts;
	u32 queue_count;
	u32 send_entries;
	u32 recv_entries;
	u32 rx_usecs;

	void *block;
	dma_addr_t block_dma;
	size_t block_bytes;

	struct longshore_rss_settings rss;
	struct longshore_rss_settings *rss_memory;
	dma_addr_t rss_dma;

	bool xdp;
	struct bpf_prog __rcu *program;

	bool up;
	u32 epoch;
	struct xarray tls;
	struct xarray ddp;
	u32 ddp_contexts;
	struct delayed_work ddp_task;
	atomic64_t tls_tx_contexts;
	atomic64_t tls_rx_contexts;
	atomic64_t tls_resync_res_ok;
	atomic64_t tls_resync_res_retry;
	bool tls_owes;

	struct work_struct reset_task;
	struct delayed_work open_task;
	struct delayed_work filter_task;
	u64 resets;
	const char *reason;
	const char *last_reason;
	bool returned;

	struct devlink *devlink;
	struct devlink_health_reporter *reporter;
};

/* Waits for all that the other side wrote before it moved the index. */
static inline u64 longshore_index(const struct longshore_ring *ring, u32 which)
{
	u64 index = READ_ONCE(*(u64 *)(ring->at + which));

	dma_rmb();
	return index;
}

/* Shows the other side our index, and what was written before; slots that it gets were read. */
static inline void longshore_publish(struct longshore_ring *ring, u32 which)
{
	if (which == LONGSHORE_RING_HEAD)
		dma_mb();
	else
		dma_wmb();
	WRITE_ONCE(*(u64 *)(ring->at + which), ring->ours);
}

static inline struct netdev_queue *longshore_txq(const struct longshore_queue *queue)
{
	return netdev_get_tx_queue(queue->nic->netdev, queue->index);
}

static inline void *longshore_slot(const struct longshore_ring *ring, u64 index)
{
	return ring->at + LONGSHORE_RING_SLOTS + (index & ring->mask) * ring->slot;
}

static inline u64 *longshore_asleep(const struct longshore_ring *ring)
{
	return ring->at + LONGSHORE_RING_ASLEEP;
}

static inline u32 longshore_ring_bytes(u32 slot, u32 entries)
{
	return ALIGN(LONGSHORE_RING_SLOTS + slot * entries, LONGSHORE_LINE);
}

/* Counts one, under the lock of a queue or in its NAPI. */
static inline void longshore_count(struct u64_stats_sync *sync, u64_stats_t *counter)
{
	u64_stats_update_begin(sync);
	u64_stats_inc(counter);
	u64_stats_update_end(sync);
}

/* netdev.c */
void longshore_init_netdev(struct longshore_nic *nic);
bool longshore_is_ours(const struct net_device *netdev);
irqreturn_t longshore_told(int irq, void *data);
void longshore_reset_task(struct work_struct *work);
void longshore_open_task(struct work_struct *work);
void longshore_filter_task(struct work_struct *work);
int longshore_restart(struct longshore_nic *nic, void (*change)(struct longshore_nic *, void *),
		      void *data);
int longshore_recover(struct longshore_nic *nic);
void longshore_reset(struct longshore_nic *nic, const char *reason);
void longshore_suspend(struct longshore_nic *nic);
int longshore_resume(struct longshore_nic *nic);

/* descriptor.c */
struct longshore_tx_buffer *longshore_next(struct longshore_queue *queue);
void longshore_unmap(struct device *dev, struct longshore_tx_buffer *buffer);
bool longshore_map(struct device *dev, struct longshore_tx_buffer *buffer, struct sk_buff *skb,
		   u32 header_len);
void longshore_put_packet(struct longshore_queue *queue, struct longshore_tx_buffer *buffer,
			  const struct sk_buff *skb, u32 header_len, u32 context);
bool longshore_put_frame(struct longshore_queue *queue, struct xdp_frame *frame);
int longshore_tx_recover(struct longshore_queue *queue, struct longshore_recover_context *recover,
			 const struct longshore_tx_part *parts, u32 count);
void longshore_put_flow(struct longshore_create_context *create, const struct sock *sk,
			bool receive);

/* tx.c */
u32 longshore_tx_room(const struct longshore_queue *queue);
void longshore_tx_publish(struct longshore_queue *queue);
int longshore_tx_open(struct longshore_queue *queue);
void longshore_tx_close(struct longshore_queue *queue);
void longshore_tx_clean(struct longshore_queue *queue, u64 head, int budget);
bool longshore_tx_waits(const struct longshore_queue *queue);
void longshore_tx_refused(struct longshore_queue *queue,
			  const struct longshore_completion *completion);
int longshore_command(struct longshore_nic *nic, const void *slot, size_t bytes, u32 *epoch);
int longshore_post(struct longshore_nic *nic, const void *slot, size_t bytes);
bool longshore_tx_drain(struct longshore_nic *nic);
netdev_tx_t longshore_start_xmit(struct sk_buff *skb, struct net_device *netdev);
netdev_features_t longshore_features_check(struct sk_buff *skb, struct net_device *netdev,
					   netdev_features_t features);

/* rx.c */
int longshore_rx_open(struct longshore_queue *queue);
void longshore_rx_close(struct longshore_queue *queue);
int longshore_poll(struct napi_struct *napi, int budget);
void longshore_init_pause(struct longshore_queue *queue);

/* xdp.c */
u32 longshore_headroom(const struct longshore_nic *nic, u32 order);
u32 longshore_room(const struct longshore_nic *nic, u32 order);
bool longshore_xdp_run(struct longshore_queue *queue, struct longshore_fill *fill,
		       struct longshore_rx_buffer *buffer, const struct longshore_packet *packet,
		       struct longshore_frame *frame);
void longshore_xdp_flush(struct longshore_queue *queue);
int longshore_xdp_xmit(struct net_device *netdev, int count, struct xdp_frame **frames, u32 flags);
int longshore_bpf(struct net_device *netdev, struct netdev_bpf *bpf);

/* ddp.c */
void longshore_ddp_init(struct longshore_nic *nic);
void longshore_ddp_reset(struct longshore_nic *nic);
void longshore_ddp_task(struct work_struct *work);
void longshore_ddp_left(struct longshore_nic *nic, u32 id, u16 tag);

/* ddp_rx.c */
struct sk_buff *longshore_ddp_build(struct longshore_queue *queue,
				    const struct longshore_packet *packet, const void *data);
void longshore_ddp_resync(struct longshore_queue *queue,
			  const struct longshore_resync_request *request);

/* tls.c */
bool longshore_tls_is_plaintext(const struct sk_buff *skb);
struct sk_buff *longshore_tls_xmit(struct longshore_queue *queue, struct sk_buff *skb, u32 *id);
void longshore_tls_refused(struct longshore_nic *nic, u32 id, u8 error);
void longshore_tls_init(struct longshore_nic *nic);
void longshore_tls_reset(struct longshore_nic *nic);

/* tls_rx.c */
void longshore_tls_received(struct longshore_queue *queue, u32 id, u32 seq, bool decrypted);
void longshore_tls_resync(struct longshore_queue *queue,
			  const struct longshore_resync_request *request);
void longshore_tls_answer_owed(struct longshore_nic *nic);

/* rss.c */
int longshore_rss_init(struct longshore_nic *nic);
void longshore_rss_spread(struct longshore_nic *nic);
int longshore_rss_restore(struct longshore_nic *nic);
u32 longshore_get_rxfh_key_size(struct net_device *netdev);
u32 longshore_get_rxfh_indir_size(struct net_device *netdev);
#ifdef LONGSHORE_RXFH_PARAM
int longshore_get_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *rxfh);
int longshore_set_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *rxfh,
		       struct netlink_ext_ack *extack);
#else
int longshore_get_rxfh_parts(struct net_device *netdev, u32 *indir, u8 *key, u8 *hfunc);
int longshore_set_rxfh_parts(struct net_device *netdev, const u32 *indir, const u8 *key,
			     const u8 hfunc);
#endif
#ifdef LONGSHORE_RXFH_FIELDS
int longshore_get_rxfh_fields(struct net_device *netdev, struct ethtool_rxfh_fields *fields);
int longshore_set_rxfh_fields(struct net_device *netdev, const struct ethtool_rxfh_fields *fields,
			      struct netlink_ext_ack *extack);
#else
int longshore_set_rxnfc(struct net_device *netdev, struct ethtool_rxnfc *info);
#endif
#ifdef LONGSHORE_RX_RING_COUNT
u32 longshore_get_rx_ring_count(struct net_device *netdev);
#else
int longshore_get_rxnfc(struct net_device *netdev, struct ethtool_rxnfc *info, u32 *rules);
#endif

/* queue_stats.c */
void longshore_get_stats64(struct net_device *netdev, struct rtnl_link_stats64 *stats);
#ifdef LONGSHORE_QUEUE_STATS
extern const struct netdev_stat_ops longshore_stat_ops;
#endif

/* devlink.c */
#ifdef CONFIG_NET_DEVLINK
int longshore_devlink_init(struct longshore_nic *nic);
void longshore_devlink_exit(struct longshore_nic *nic);
void longshore_health_report(struct longshore_nic *nic, const char *reason);
void longshore_health_is_good(struct longshore_nic *nic);
#else
static inline int longshore_devlink_init(struct longshore_nic *nic)
{
	return 0;
}

static inline void longshore_devlink_exit(struct longshore_nic *nic)
{
}

static inline void longshore_health_report(struct longshore_nic *nic, const char *reason)
{
	longshore_recover(nic);
}

static inline void longshore_health_is_good(struct longshore_nic *nic)
{
}
#endif

/* ethtool.c */
extern const struct ethtool_ops longshore_ethtool_ops;

#endif
