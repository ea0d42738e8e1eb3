// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: packets of NVMe/TCP, parts of which the device has placed. */

#include "nic.h"
#include "ddp_context.h"

/* Most bytes that are copied into memory of one fragment. */
#define LONGSHORE_DDP_COPY		2048

/**
 * struct longshore_ddp_build - a packet whose payload lies in several places
 * @queue: its queue
 * @head: the packet
 * @tail: what has room for more pages: the packet, or the last of those that it has as a list
 */
struct longshore_ddp_build {
	struct longshore_queue *queue;
	struct sk_buff *head;
	struct sk_buff *tail;
};

/* Appends memory of one folio. */
static bool longshore_ddp_append(struct longshore_ddp_build *build, struct page *page, u32 offset,
				 u32 len)
{
	struct sk_buff *head = build->head, *tail = build->tail;

	if (!len)
		return true;
	if (skb_shinfo(tail)->nr_frags == MAX_SKB_FRAGS) {
		struct sk_buff *next = napi_alloc_skb(&build->queue->napi, 0);

		if (!next)
			return false;
		if (tail == head)
			skb_shinfo(head)->frag_list = next;
		else
			tail->next = next;
		head->truesize += next->truesize;
		build->tail = next;
		tail = next;
	}
	get_page(page);
	skb_add_rx_frag(tail, skb_shinfo(tail)->nr_frags, page, offset, len, len);
	if (tail != head) {
		head->len += len;
		head->data_len += len;
		head->truesize += len;
	}
	return true;
}

/* Appends a copy of bytes of the stream that were not placed: headers, mostly. */
static bool longshore_ddp_append_copy(struct longshore_ddp_build *build, const void *data, u32 len)
{
	while (len) {
		u32 part = min_t(u32, len, LONGSHORE_DDP_COPY);
		void *copy = napi_alloc_frag(part);
		struct page *page;
		bool appended;

		if (!copy)
			return false;
		memcpy(copy, data, part);
		page = virt_to_head_page(copy);
		appended = longshore_ddp_append(build, page, copy - page_address(page), part);
		skb_free_frag(copy);
		if (!appended)
			return false;
		data += part;
		len -= part;
	}
	return true;
}

/* What the device has placed of the packet that is the next on the ring. */
static void longshore_ddp_get_placed(const struct longshore_queue *queue, u32 number,
				     struct longshore_placed *placed)
{
	const struct longshore_ring *ring = &queue->receive;

	memcpy(placed, longshore_slot(ring, ring->ours + number), sizeof(*placed));
}

/* The buffer of a tag, if it is the one that the device has placed bytes in. */
static struct ulp_ddp_io *longshore_ddp_find(const struct longshore_queue *queue,
					     const struct ulp_ddp_ctx *ctx, u16 tag)
{
	struct ulp_ddp_io *io = tag < ctx->tags ? ctx->ios[tag] : NULL;

	if (io && io->queue == queue && (s64)(queue->receive.ours - io->since) < 0)
		return NULL;
	return io;
}

/* Counts what was placed, whether there will be a packet of it or not. */
static void longshore_ddp_count(const struct longshore_queue *queue, struct ulp_ddp_ctx *ctx,
				const struct longshore_packet *packet)
{
	u32 number;

	for (number = 1; number <= packet->placed; number++) {
		struct longshore_placed placed;
		struct ulp_ddp_io *io;

		longshore_ddp_get_placed(queue, number, &placed);
		io = longshore_ddp_find(queue, ctx, placed.tag);
		if (io)
			io->placed += placed.slice.len;
	}
	ctx->queue = queue;
}

/* Appends what the device says that it has placed: memory of the buffer of its tag. */
static bool longshore_ddp_append_placed(struct longshore_ddp_build *build,
					const struct ulp_ddp_ctx *ctx,
					const struct longshore_placed *placed)
{
	const struct ulp_ddp_io *io = longshore_ddp_find(build->queue, ctx, placed->tag);
	u64 from = placed->slice.offset;
	u32 left = placed->slice.len;
	struct scatterlist *sg;
	int at;

	if (!io)
		return false;
	/* Parts that lie side by side are one for the device. */
	for_each_sg(io->sgl, sg, io->mapped, at) {
		while (left && from >= sg_dma_address(sg) &&
		       from - sg_dma_address(sg) < sg_dma_len(sg)) {
			size_t skip = sg->offset + (from - sg_dma_address(sg));
			struct page *page = sg_page(sg) + skip / PAGE_SIZE;
			u32 len = min_t(u32, left, PAGE_SIZE - skip % PAGE_SIZE);

			len = min_t(u64, len, sg_dma_address(sg) + sg_dma_len(sg) - from);
			if (!longshore_ddp_append(build, page, skip % PAGE_SIZE, len))
				return false;
			from += len;
			left -= len;
		}
	}
	return !left;
}

/* Appends what was placed and, from @data, what was not, as they come in the stream. */
static bool longshore_ddp_fill(struct longshore_ddp_build *build, const struct ulp_ddp_ctx *ctx,
			       const struct longshore_packet *packet, const void *data,
			       u32 unplaced)
{
	u32 at = 0, number;

	for (number = 1; number <= packet->placed; number++) {
		struct longshore_placed placed;
		u32 gap;

		longshore_ddp_get_placed(build->queue, number, &placed);
		gap = placed.at - at;
		if (placed.opcode != LONGSHORE_OPCODE_PLACED || gap > unplaced ||
		    !longshore_ddp_append_copy(build, data, gap) ||
		    !longshore_ddp_append_placed(build, ctx, &placed))
			return false;
		data += gap;
		unplaced -= gap;
		at = placed.at + placed.slice.len;
	}
	return longshore_ddp_append_copy(build, data, unplaced) &&
	       build->head->len == packet->header_len + packet->payload_len;
}

/**
 * longshore_ddp_build() - a packet of which the device has placed parts
 * @queue: its queue, whose receive ring has it as the next
 * @packet: what the device says of it
 * @data: the headers, and behind them what was not placed
 *
 * Return: the packet, or %NULL if there is no memory for it, or its buffer is not known: nvme-tcp
 * has given up the connection then, or the peer has answered twice.
 */
struct sk_buff *longshore_ddp_build(struct longshore_queue *queue,
				    const struct longshore_packet *packet, const void *data)
{
	const struct longshore_ring *ring = &queue->receive;
	struct longshore_ddp_build build = { .queue = queue };
	u32 headers = packet->header_len;
	struct ulp_ddp_ctx *ctx;
	bool filled = false;

	/* What it has placed, the device publishes with the packet. */
	if (headers < ETH_HLEN ||
	    longshore_index(ring, LONGSHORE_RING_TAIL) - ring->ours <= packet->placed)
		return NULL;
	build.head = napi_alloc_skb(&queue->napi, headers);
	build.tail = build.head;
	rcu_read_lock();
	ctx = xa_load(&queue->nic->ddp, packet->context);
	if (ctx) {
		spin_lock(&ctx->lock);
		longshore_ddp_count(queue, ctx, packet);
		if (build.head) {
			skb_put_data(build.head, data, headers);
			filled = longshore_ddp_fill(&build, ctx, packet, data + headers,
						    packet->buffer.len - headers);
		}
		spin_unlock(&ctx->lock);
	}
	rcu_read_unlock();
	if (filled)
		return build.head;
	kfree_skb(build.head);
	return NULL;
}

/* The device thinks that a PDU begins at a position. */
void longshore_ddp_resync(struct longshore_queue *queue,
			  const struct longshore_resync_request *request)
{
	struct ulp_ddp_ctx *ctx;

	rcu_read_lock();
	ctx = xa_load(&queue->nic->ddp, request->context);
	if (ctx) {
		spin_lock(&ctx->lock);
		if (!ctx->gone)
			ctx->ops->resync_request(ctx->ulp, request->tcpsn);
		spin_unlock(&ctx->lock);
		longshore_count(&queue->rx_stats.sync, &queue->rx_stats.nvme_resync_req);
	}
	rcu_read_unlock();
}
