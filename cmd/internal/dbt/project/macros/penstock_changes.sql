{# The rows of a table that were added, changed or deleted since the last run of an incremental model. The model reads on
   from the latest time in its own rows. Each commit of penstock to a table has a later time than the commit before, so no
   row comes late. If several sources share the table, this holds for each source. #}
{% macro penstock_changes(source_name, table) %}
{%- set relation = source(source_name, table) -%}
{%- if execute -%}
    {%- set about = (graph.sources.values() | selectattr('source_name', 'equalto', source_name) | selectattr('name', 'equalto', table) | first).meta.penstock -%}
    {%- if about.mode == 'replace' or about.parent or not about.key -%}
        {{ exceptions.raise_compiler_error("penstock_changes: " ~ table ~ " loses rows without a trace; use materialized='table'") }}
    {%- endif -%}
    {%- if about.shared and config.get('unique_key') and '_penstock_source' not in config.get('unique_key') -%}
        {{ exceptions.raise_compiler_error("penstock_changes: several sources share " ~ table ~ "; add '_penstock_source' to unique_key") }}
    {%- endif -%}
{%- endif -%}
select t.*
from {{ relation }} t
{%- if execute and is_incremental() %}
{%- if about.shared %}
left join (
    select "_penstock_source", max("_penstock_synced_at") as penstock_seen from {{ this }} group by "_penstock_source"
) s on s."_penstock_source" = t."_penstock_source"
where s.penstock_seen is null or t."_penstock_synced_at" > s.penstock_seen
{%- else %}
where t."_penstock_synced_at" > (
    select coalesce(max("_penstock_synced_at"), timestamptz '1970-01-01 00:00:00+00') from {{ this }}
)
{%- endif %}
{%- endif %}
{% endmacro %}

{# A post-hook of an incremental model of a table of mode merge: removes the records that the source has deleted. #}
{% macro penstock_remove_deleted() -%}
delete from {{ this }} where "_penstock_deleted_at" is not null
{%- endmacro %}
