{% macro penstock_json(column) -%}
    {%- if target.type == 'duckdb' -%}cast({{ column }} as json){%- else -%}{{ column }}{%- endif -%}
{%- endmacro %}
