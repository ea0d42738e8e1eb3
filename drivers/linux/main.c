// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: the PCI function. */

#include <linux/etherdevice.h>
#include <linux/module.h>

#include "nic.h"

static int longshore_init_queues(struct longshore_nic *nic)
{
	u32 index;

	nic->send_entries = min_t(u32, LONGSHORE_SEND_ENTRIES, nic->limits.send_entries);
	nic->recv_entries = min3((u32)LONGSHORE_RECV_ENTRIES, nic->limits.receive_entries,
				 nic->limits.small_entries);
	nic->queues = kvcalloc(nic->limits.queues, sizeof(*nic->queues), GFP_KERNEL);
	if (!nic->queues)
		return -ENOMEM;
	for (index = 0; index < nic->limits.queues; index++) {
		struct longshore_queue *queue = &nic->queues[index];

		queue->nic = nic;
		queue->index = index;
		u64_stats_init(&queue->tx_stats.sync);
		u64_stats_init(&queue->rx_stats.sync);
		netif_napi_add(nic->netdev, &queue->napi, longshore_poll);
		longshore_init_pause(queue);
	}
	return 0;
}

static void longshore_free_queues(struct longshore_nic *nic)
{
	u32 index;

	for (index = 0; index < nic->limits.queues; index++)
		netif_napi_del(&nic->queues[index].napi);
	kvfree(nic->queues);
}

static int longshore_enable_function(struct pci_dev *pdev)
{
	int error;

	error = pcim_enable_device(pdev);
	if (error)
		return error;
	error = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	error = pcim_request_all_regions(pdev, LONGSHORE_NAME);
	if (error)
		return error;
	pci_set_master(pdev);
	return 0;
}

/* Finds out what the device is, and takes as many queues as there are processors. */
static int longshore_identify(struct longshore_nic *nic)
{
	int error, vectors;

	error = longshore_hw_identify(nic);
	if (error)
		return dev_err_probe(&nic->pdev->dev, error, "not a device of this version\n");
	/* One for each queue that the device could have, and one for the device itself. */
	nic->event_vector = nic->limits.queues;
	vectors = pci_alloc_irq_vectors(nic->pdev, nic->event_vector + 1, nic->event_vector + 1,
					PCI_IRQ_MSIX);
	if (vectors < 0)
		return dev_err_probe(&nic->pdev->dev, vectors, "no interrupts\n");
	nic->limits.queues = min_t(u32, nic->limits.queues, LONGSHORE_MAX_QUEUES);
	nic->queue_count = min_t(u32, nic->limits.queues, num_online_cpus());
	return 0;
}

static int longshore_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct net_device *netdev;
	struct longshore_nic *nic;
	int error;

	error = longshore_enable_function(pdev);
	if (error)
		return error;
	netdev = alloc_etherdev_mqs(sizeof(*nic), LONGSHORE_MAX_QUEUES, LONGSHORE_MAX_QUEUES);
	if (!netdev)
		return -ENOMEM;
	SET_NETDEV_DEV(netdev, &pdev->dev);
	pci_set_drvdata(pdev, netdev);
	nic = netdev_priv(netdev);
	nic->netdev = netdev;
	nic->pdev = pdev;
	INIT_WORK(&nic->reset_task, longshore_reset_task);
	INIT_DELAYED_WORK(&nic->open_task, longshore_open_task);
	INIT_DELAYED_WORK(&nic->filter_task, longshore_filter_task);
	nic->regs = pcim_iomap(pdev, LONGSHORE_BAR, 0);
	error = nic->regs ? longshore_identify(nic) : -ENOMEM;
	if (error)
		goto free_netdev;
	error = longshore_init_queues(nic);
	if (error)
		goto free_vectors;
	error = longshore_rss_init(nic);
	if (error)
		goto free_queues;
	/* Statistics are asked for by queue as soon as there is a netdev, up or not. */
	error = netif_set_real_num_queues(netdev, nic->queue_count, nic->queue_count);
	if (error)
		goto free_queues;
	longshore_init_netdev(nic);
	longshore_tls_init(nic);
	longshore_ddp_init(nic);
	netif_carrier_off(netdev);
	error = longshore_devlink_init(nic);
	if (error)
		goto free_queues;
	error = request_irq(pci_irq_vector(pdev, nic->event_vector), longshore_told, 0,
			    pci_name(pdev), nic);
	if (error)
		goto exit_devlink;
	error = register_netdev(netdev);
	if (error)
		goto free_irq;
	return 0;

free_irq:
	free_irq(pci_irq_vector(pdev, nic->event_vector), nic);
	cancel_work_sync(&nic->reset_task);
exit_devlink:
	longshore_devlink_exit(nic);
free_queues:
	longshore_free_queues(nic);
free_vectors:
	pci_free_irq_vectors(pdev);
free_netdev:
	free_netdev(netdev);
	return error;
}

static void longshore_remove(struct pci_dev *pdev)
{
	struct net_device *netdev = pci_get_drvdata(pdev);
	struct longshore_nic *nic = netdev_priv(netdev);

	unregister_netdev(netdev);
	free_irq(pci_irq_vector(pdev, nic->event_vector), nic);
	cancel_work_sync(&nic->reset_task);
	cancel_delayed_work_sync(&nic->open_task);
	longshore_devlink_exit(nic);
	/* A test of devlink's may have found the interface up. */
	cancel_work_sync(&nic->reset_task);
	cancel_delayed_work_sync(&nic->filter_task);
	cancel_delayed_work_sync(&nic->ddp_task);
	longshore_free_queues(nic);
	pci_free_irq_vectors(pdev);
	free_netdev(netdev);
}

/* The next kernel's memory is not for this one's packets. */
static void longshore_shutdown(struct pci_dev *pdev)
{
	longshore_suspend(netdev_priv(pci_get_drvdata(pdev)));
}

static void longshore_reset_prepare(struct pci_dev *pdev)
{
	longshore_suspend(netdev_priv(pci_get_drvdata(pdev)));
}

static void longshore_reset_done(struct pci_dev *pdev)
{
	longshore_resume(netdev_priv(pci_get_drvdata(pdev)));
}

static const struct pci_error_handlers longshore_error_handlers = {
	.reset_prepare = longshore_reset_prepare,
	.reset_done = longshore_reset_done,
};

static int longshore_pm_suspend(struct device *dev)
{
	longshore_suspend(netdev_priv(dev_get_drvdata(dev)));
	return 0;
}

static int longshore_pm_resume(struct device *dev)
{
	return longshore_resume(netdev_priv(dev_get_drvdata(dev)));
}

static DEFINE_SIMPLE_DEV_PM_OPS(longshore_pm_ops, longshore_pm_suspend, longshore_pm_resume);

static const struct pci_device_id longshore_ids[] = {
	{ PCI_DEVICE(LONGSHORE_PCI_VENDOR, LONGSHORE_PCI_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, longshore_ids);

static struct pci_driver longshore_driver = {
	.name = LONGSHORE_NAME,
	.id_table = longshore_ids,
	.probe = longshore_probe,
	.remove = longshore_remove,
	.shutdown = longshore_shutdown,
	.err_handler = &longshore_error_handlers,
	.driver.pm = pm_sleep_ptr(&longshore_pm_ops),
};
module_pci_driver(longshore_driver);

MODULE_DESCRIPTION("Driver of the longshore NIC");
MODULE_LICENSE("GPL");
