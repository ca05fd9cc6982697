-- The ten products with the highest sales. Drafts of invoices are not sales.
SELECT p.name AS product, sum(i.total_amount) AS amount
FROM sales_invoices__items_current i
  JOIN sales_invoices_current s ON s.id = i._penstock_parent
  JOIN products_items_current p ON p.id = i.product_id
WHERE s.status <> 'draft'
GROUP BY p.id, p.name
ORDER BY amount DESC, p.id
LIMIT 10
