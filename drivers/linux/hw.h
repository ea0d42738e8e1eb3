/* SPDX-License-Identifier: GPL-2.0 */
/* Linux driver of the longshore NIC: its registers. */
#ifndef LONGSHORE_HW_H
#define LONGSHORE_HW_H

#include <linux/bits.h>
#include <linux/if_ether.h>

#include "../longshore.h"

struct longshore_nic;

#define LONGSHORE_PCI_VENDOR	0x6c73
#define LONGSHORE_PCI_DEVICE	0x0001

/* Registers, little endian; those of 64 bits are read and written in halves. */
#define LONGSHORE_BAR		0
#define LONGSHORE_REG_MAGIC	0x000
#define LONGSHORE_REG_VERSION	0x004
#define LONGSHORE_REG_CONTROL	0x008
#define  LONGSHORE_CONTROL_ENABLE	BIT(0)
#define  LONGSHORE_CONTROL_RESET	BIT(1)
#define LONGSHORE_REG_STATUS	0x00c
#define  LONGSHORE_STATUS_READY		BIT(0)
#define  LONGSHORE_STATUS_LINK		BIT(1)
#define  LONGSHORE_STATUS_FAILED	BIT(2)
#define  LONGSHORE_STATUS_REFUSAL	GENMASK(15, 8)
#define  LONGSHORE_STATUS_GONE		U32_MAX
#define LONGSHORE_REG_MAC	0x010
#define LONGSHORE_REG_MTU	0x018
#define LONGSHORE_REG_EVENTS	0x01c
#define LONGSHORE_REG_FEATURES	0x020
/* Words of the message that sets a function up, from the first that says something on. */
#define LONGSHORE_REG_SET_UP(word)	(0x040 + 8 * ((word) - LONGSHORE_SET_UP_QUEUES))
#define LONGSHORE_REG_IDENTITY(word)	(0x100 + 8 * (word))
#define LONGSHORE_REG_RINGS(queue)	(0x200 + 8 * (queue))
#define LONGSHORE_REG_DOORBELL(queue)	(0x1000 + 4 * (queue))

/* The region that is all of the guest's memory. */
#define LONGSHORE_REGION	0

/**
 * struct longshore_limits - what a device has, as far as the driver can use it
 * @version: of its interface
 * @features: parts that it offers
 * @protocols: those of contexts: bit n is set for protocol n
 * @contexts: most contexts that the driver would use
 * @tags: most tags of contexts that place data, all together
 * @mac: the function's address
 * @mtu: longest packet without its Ethernet header
 * @queues: most queues
 * @send_entries: most slots of a send ring
 * @command_entries: most slots of a command ring
 * @receive_entries: most slots of a receive ring
 * @small_entries: most slots of a ring of small buffers
 * @large_entries: most slots of a ring of large buffers
 */
struct longshore_limits {
	u32 version;
	u64 features;
	u64 protocols;
	u32 contexts;
	u32 tags;
	u8 mac[ETH_ALEN];
	u32 mtu;
	u32 queues;
	u32 send_entries;
	u32 command_entries;
	u32 receive_entries;
	u32 small_entries;
	u32 large_entries;
};

/**
 * struct longshore_setup - what a function is to be
 * @features: parts of the device that the driver uses
 * @block: where the device finds the rings
 * @stride: bytes of a queue's
 * @queues: their number
 * @send_entries: slots of each send ring
 * @command_entries: slots of each command ring
 * @receive_entries: slots of each receive ring
 * @small_entries: slots of each ring of small buffers
 * @large_entries: slots of each ring of large buffers
 * @small_bytes: bytes of a small buffer
 * @large_bytes: bytes of a large buffer
 * @contexts: most contexts
 * @tags: most tags of these, all together
 */
struct longshore_setup {
	u64 features;
	dma_addr_t block;
	size_t stride;
	u32 queues;
	u32 send_entries;
	u32 command_entries;
	u32 receive_entries;
	u32 small_entries;
	u32 large_entries;
	u32 small_bytes;
	u32 large_bytes;
	u32 contexts;
	u32 tags;
};

/* What the device tells by its own interrupt: the one behind those of the queues. */
#define LONGSHORE_EVENT_LINK	BIT(0)
#define LONGSHORE_EVENT_FAILED	BIT(1)

int longshore_hw_identify(struct longshore_nic *nic);
int longshore_hw_start(struct longshore_nic *nic, const struct longshore_setup *setup);
void longshore_hw_reset(struct longshore_nic *nic);
void longshore_hw_ring(struct longshore_nic *nic, u16 queue);
bool longshore_hw_link(struct longshore_nic *nic);
u32 longshore_hw_events(struct longshore_nic *nic);

#endif
