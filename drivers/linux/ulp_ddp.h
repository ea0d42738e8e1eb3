/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Placement of NVMe/TCP's data, and its digests: between nvme-tcp with patches/nvme-tcp.patch and
 * this driver. Names are those of the series "nvme-tcp receive offloads" where they fit.
 */
#ifndef LONGSHORE_ULP_DDP_H
#define LONGSHORE_ULP_DDP_H

#include <linux/netdevice.h>
#include <linux/scatterlist.h>
#include <net/sock.h>

/* Most parts of a buffer. */
#define ULP_DDP_MAX_SGL		16
/* Reads of fewer bytes are not worth a buffer. */
#define ULP_DDP_IO_THRESHOLD	4096

struct ulp_ddp_ctx;

/**
 * struct ulp_ddp_config - a connection whose next byte begins a PDU
 * @hdgst: PDUs have header digests
 * @ddgst: PDUs have data digests
 * @queue_size: command identifiers are below this
 * @max_pdu: bytes of the longest PDU
 */
struct ulp_ddp_config {
	bool hdgst;
	bool ddgst;
	u16 queue_size;
	u32 max_pdu;
};

/**
 * struct ulp_ddp_io - the buffer of a read; the driver's between setup and teardown_done()
 * @command_id: of the read
 * @nents: parts of the buffer
 * @sgl: these
 * @placed: bytes that the device has placed, of packets that the driver has seen
 * @mapped: the driver's: as many are mapped for the device
 * @stage: the driver's
 * @queue: the driver's: where packets of the connection came before it was set up
 * @since: the driver's: those before this index of that queue are of another buffer
 */
struct ulp_ddp_io {
	u16 command_id;
	int nents;
	struct scatterlist *sgl;
	u32 placed;
	int mapped;
	int stage;
	const void *queue;
	u64 since;
};

/**
 * struct ulp_ddp_ulp_ops - what the driver calls, where it may not sleep
 * @resync_request: does a PDU begin at @seq? resync() answers if so, and nothing does if not
 * @ddp_teardown_done: the device writes to the buffer no longer
 */
struct ulp_ddp_ulp_ops {
	void (*resync_request)(void *ulp, u32 seq);
	void (*ddp_teardown_done)(struct ulp_ddp_io *io);
};

/**
 * struct ulp_ddp_dev_ops - what the driver does
 * @sk_add: has the device follow a connection; an error pointer if it does not. May sleep
 * @sk_del: ends that: when it returns, the device writes to no buffer, and takes none. May sleep
 * @sk_free: frees the context of one that has ended, and that is not found any more. May sleep
 * @setup: gives the device the buffer of a read. After an error it has none
 * @teardown: takes it back; ddp_teardown_done() is called when that is so, perhaps at once
 * @resync: a PDU begins where the device has asked
 *
 * A packet has the buffer's own pages where the device has placed bytes. %skb->decrypted says that
 * it has looked at all of a packet and that digests which end in it are right: a PDU's is when all
 * packets of the PDU have it.
 *
 * The device also places bytes of packets that TCP then drops, because they were forged or there is
 * no room. When more were placed than were found in packets, one of these may have come after the
 * bytes that TCP took: what is in the buffer is not to be believed.
 */
struct ulp_ddp_dev_ops {
	struct ulp_ddp_ctx *(*sk_add)(struct net_device *netdev, struct sock *sk,
				      const struct ulp_ddp_config *config,
				      const struct ulp_ddp_ulp_ops *ops, void *ulp);
	void (*sk_del)(struct ulp_ddp_ctx *ctx);
	void (*sk_free)(struct ulp_ddp_ctx *ctx);
	int (*setup)(struct ulp_ddp_ctx *ctx, struct ulp_ddp_io *io);
	void (*teardown)(struct ulp_ddp_ctx *ctx, struct ulp_ddp_io *io);
	void (*resync)(struct ulp_ddp_ctx *ctx, u32 seq);
};

const struct ulp_ddp_dev_ops *longshore_ulp_ddp_ops(const struct net_device *netdev);

#endif
