{# The test fails if the last reading of the stream has another verdict than those of the variable penstock_verdicts, or if
   the stream has no certificate. If several sources share the tables, it tests the last reading of each source. #}
{% test penstock_certified(model, stream, shared=false) %}
{%- set of_source -%}
{%- if shared and var('penstock_source', '') %} and c."_penstock_source" = '{{ var("penstock_source") }}'{% endif -%}
{%- endset -%}
select "stream", "verdict"
from (
    select c.*, row_number() over ({% if shared %}partition by c."_penstock_source" {% endif %}order by c."at" desc) as penstock_newest
    from {{ source('penstock', '_penstock_certificates') }} c
    where c."stream" = '{{ stream }}' {{ of_source }}
) certificates
where penstock_newest = 1 and "verdict" not in ('{{ var("penstock_verdicts", ["proven", "consistent"]) | join("', '") }}')
union all
select '{{ stream }}', 'no certificate'
where not exists (select 1 from {{ source('penstock', '_penstock_certificates') }} c where c."stream" = '{{ stream }}' {{ of_source }})
{% endtest %}
