-- The value of the deals in each stage. Deals that are neither won nor lost are open.
SELECT stage, CASE status WHEN 'Won' THEN 'won' WHEN 'Loss' THEN 'lost' ELSE 'open' END AS deals, sum(worth) AS amount
FROM pipeline_by_stage
GROUP BY ALL
ORDER BY min(TRY_CAST(stage_order AS INTEGER)), stage, deals
